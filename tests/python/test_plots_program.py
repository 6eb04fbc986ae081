"""scripts/plot as a program: its files and its refusals; its numbers are those of assay show."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import made_report
import pytest

pytest.importorskip("plotted")

from assay_plots.analysis import ReportError, find_program, read_study
from assay_plots.plots.tax import percent
from plotted import GOLDEN, PROGRAM, ROOT, study_at


def test_ratios_and_taxes_are_those_of_assay_show() -> None:
    """The golden table was written by the program from the same report."""
    study = study_at(GOLDEN)
    of_show = {}
    for line in (ROOT / "tests/cli/data/show.console").read_text(encoding="utf-8").splitlines():
        ratio = re.search(r"([\d.]+)x \[([\d.]+), ([\d.]+)\]", line)
        words = line.split()
        if ratio and words[0].isdigit():
            tax = re.search(r"([+-]\d+) % \[", line)
            of_show[f"{words[1]} {words[2]}"] = (*map(float, ratio.groups()), tax.group(1) if tax else None)
    assert of_show["torch compile"] == (4.0, 4.0, 4.0, "+300")
    (group,) = study.groups
    for cell in group.cells:
        ratio = cell.ratio
        if cell.series not in of_show:
            assert ratio is None, cell.series
            continue
        assert ratio is not None
        value, lower, upper, tax = of_show[cell.series]
        assert (ratio.value, ratio.lower, ratio.upper) == pytest.approx((value, lower, upper), rel=5e-3)
        assert (tax is not None) == cell.taxed
        if tax:
            assert percent(ratio.value) == f"{tax} %"


def test_the_made_reports_are_reports(tmp_path: Path) -> None:
    made = {"everything": made_report.everything(), "studies": made_report.studies()}
    for name, report in (made | {"large": made_report.large(8)}).items():
        path = tmp_path / f"{name}.json"
        # They have only the metrics that plots read, which a report of today may not.
        path.write_text(json.dumps(report | {"rules": 3}))
        done = subprocess.run([PROGRAM, "validate", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def plot(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay_plots", *map(str, arguments)]
    environment = {
        "PYTHONPATH": str(ROOT / "scripts"),
        "PATH": "/usr/bin:/bin",
        "ASSAY_PROGRAM": str(PROGRAM),
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)


def test_files_are_named_and_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = plot(GOLDEN, "--out", tmp_path / name, "--only", "tax,noise")
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"tax.svg", "tax.png", "noise.svg", "noise.png", "index.html"}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a/tax.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json"], "nothing.json: No such file"),
        ([str(GOLDEN), "--only", "nonsense"], "no nonsense: there are throughput"),
        ([str(GOLDEN), "--filter", "nonsense"], "--filter got 'nonsense': no cell has it in its id"),
        ([str(GOLDEN), str(GOLDEN)], "the same report is given twice"),
    ],
)
def test_bad_input_ends_with_two_and_a_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = plot(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_program_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ASSAY_PROGRAM", None), ("PATH", str(tmp_path))):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("assay_plots.analysis.ROOT", tmp_path)
    with pytest.raises(ReportError, match="run scripts/quickstart"):
        find_program()
    for build in ("dev", "release"):
        program = tmp_path / "build" / build / "assay"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        assert find_program() == program
    monkeypatch.setenv("ASSAY_PROGRAM", str(PROGRAM))
    assert find_program() == PROGRAM
    with pytest.raises(ReportError, match="nothing: no such program"):
        find_program(tmp_path / "nothing")


def test_another_form_of_the_analysis_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "assay"
    program.write_text("""#!/bin/sh\nprintf '{"schema": "assay-analysis/99",\\n"cells": [\\n]}\\n'\n""")
    program.chmod(0o755)
    with pytest.raises(ReportError, match="assay-analysis/99; these pictures need assay-analysis/1"):
        read_study([GOLDEN], program=program)


def test_the_page_of_a_study_has_its_text_claims_and_pictures(tmp_path: Path) -> None:
    report = made_report.studies()
    report["cells"] = report["cells"][-2:]
    path = tmp_path / "plans.json"
    path.write_text(json.dumps(report))
    done = plot(path, "--study", "mxnet-memory", "--format", "html", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    sections = re.findall(r'<section id="([a-z_-]+)"', page)
    assert sections[:2] == ["summary", "warnings"]
    assert [name for name in sections if name in ("study", "claims", "plans", "memory")] == [
        *("study", "claims", "plans", "memory")
    ]
    assert "<title>MXNet&#x27;s documents: memory plans over networks</title>" in page
    assert "holds" in page[page.index('id="claims"') : page.index('id="plans"')]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--study", "nonsense"], "unknown study nonsense; known are smartia-table-4"),
        (
            ["--study", "mxnet-memory", "--filter", "a"],
            "--study decides on whole reports: leave out --filter",
        ),
    ],
)
def test_a_study_that_cannot_be_drawn_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = plot(GOLDEN, *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
