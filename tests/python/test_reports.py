"""Reports of every age, every size and every intent."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kept_reports import GOLDEN, report_of, write_large
from program import PROGRAM, assay, told
from report_form import columns, version_1
from report_rows import rows
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
KEPT = sorted((ROOT / "tests/reports").glob("*.json"))
FORMATS = {"show": ["console", "markdown", "csv", "json", "gbench"],
           "compare": ["console", "markdown", "json", "junit", "github"]}  # fmt: skip


@pytest.mark.parametrize("report", [*KEPT, GOLDEN], ids=lambda file: file.stem)
def test_reports_of_every_age_are_read(report: Path) -> None:
    for command in (["validate", report], ["show", report], ["compare", report, report]):
        done = assay(*command)
        assert done.returncode in (0, 4, 6), done.stderr
        assert done.stdout


OP_DOT = ROOT / "tests/data/flags/op-dot.json.gz"
SAMPLES = sorted((ROOT / "results/samples").rglob("*.json*"))


@pytest.mark.parametrize("file", [OP_DOT, *SAMPLES], ids=lambda file: f"{file.parent.name}-{file.name}")
def test_flags_of_the_samples_follow_no_program(file: Path) -> None:
    """By earlier rules 66 of 80 forks of MXNet's op/dot were flagged, and 1 of TensorFlow's."""
    document = told("show", file, "--format", "json")
    rates = document["reports"][0]["flag_rates"]
    assert not [rate for rate in rates if rate["differs"]]
    disturbed = {rate["backend"]: rate["flagged"] for rate in rates if rate["flag"] == "disturbed"}
    if file == OP_DOT:
        assert disturbed == {"mxnet": 1, "tensorflow": 1}
    for cell in document["cells"]:
        assert all(fork["clean"] for fork in cell["forks"] if not fork["flags"] and not fork["reason"])


@pytest.mark.parametrize("version", [1, 2])
def test_both_versions_show_the_same(tmp_path: Path, version: int) -> None:
    report = json.loads(GOLDEN.read_text())
    path = tmp_path / "report.json"
    path.write_text(json.dumps(version_1(report) if version == 1 else report))
    for form in FORMATS["show"]:
        assert assay("show", path, "--format", form).stdout == assay("show", GOLDEN, "--format", form).stdout
    upgraded = tmp_path / "upgraded.json"
    assert assay("validate", "--upgrade", upgraded, path).returncode == 0
    assert assay("validate", "--strict", upgraded).returncode == 0


def test_version_2_has_a_third_of_the_bytes(tmp_path: Path) -> None:
    sizes = []
    for version in (1, 2):
        path = tmp_path / f"{version}.json"
        with path.open("w") as file:
            write_large(20, file, forks=3, blocks=20, version=version)
        assert assay("validate", path).returncode == 0
        sizes.append(path.stat().st_size)
    assert 3 * sizes[1] < sizes[0]


def test_the_first_form_of_the_report_is_among_those_that_are_kept() -> None:
    (first,) = [file for file in KEPT if file.stem == "1-first"]
    cell = json.loads(first.read_text())["cells"][0]
    assert "axes" not in cell
    assert "work" not in cell
    assert "variant" not in cell


def spoilt(tmp_path: Path, spoil: Any) -> Path:
    report = report_of([[[1000, 1001], [1002, 1003]]])
    spoil(report)
    path = tmp_path / "spoilt.json"
    path.write_text(json.dumps(report))
    return path


HOSTILE = {
    "deep nesting": "[" * 5_000_000,
    "deep nesting that ends": "[" * 2000 + "]" * 2000,
    "a number that no machine has": '{"schema": "assay-report/1", "run": 1e400}',
    "an integer that no machine has": '{"schema": "assay-report/1", "run": ' + "9" * 500 + "}",
    "NaN": '{"schema": "assay-report/1", "run": NaN}',
    "Infinity": '{"schema": "assay-report/1", "run": -Infinity}',
    "a key that stands twice": '{"schema": "assay-report/1", "schema": "assay-report/1"}',
    "a newer schema": '{"schema": "assay-report/9", "run": {}, "environment": {}, "cells": []}',
    "no text": "\xff\xfe\x00",
    "nothing": "",
    "a long line": '{"schema": "' + "x" * 50_000_000 + '"}',
    "many keys": "{" + ",".join(f'"{i}":0' for i in range(1_000_000)) + ',"7":0}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_is_not_a_report_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hostile.json"
    path.write_text(text, encoding="latin-1")
    for command in (["validate", path], ["show", path], ["compare", path, GOLDEN], ["compare", GOLDEN, path]):
        done = assay(*command)
        assert done.returncode == 2, done.stderr[:1000]
        assert len(done.stderr) < 2000
        assert "hostile.json" in done.stderr
        assert "fault of the program" not in done.stderr


def test_a_gigabyte_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate((1 << 30) + 1)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = assay("validate", path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2
    assert "larger than the limit of 1073741824 bytes" in done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1  # of the processor


def test_an_endless_line_on_standard_input_is_refused_at_the_limit() -> None:
    with subprocess.Popen(["yes", "x" * 65535], stdout=subprocess.PIPE) as endless:
        command = [str(PROGRAM), "validate", "-"]
        done = subprocess.run(
            command, stdin=endless.stdout, capture_output=True, text=True, timeout=600, check=False
        )
        endless.kill()
    assert done.returncode == 2
    assert "limit" in done.stderr


def test_a_duplicate_id_is_refused(tmp_path: Path) -> None:
    path = spoilt(tmp_path, lambda report: report["cells"].append(report["cells"][0]))
    assert "the id is a duplicate" in assay("validate", path).stderr
    done = assay("compare", path, path)
    assert done.returncode == 2
    assert "contradicts itself" in done.stderr
    assert "the id is a duplicate" in done.stderr


def change_block(key: str, value: int) -> Any:
    def change(report: dict[str, Any]) -> None:
        fork = report["cells"][0]["forks"][0]
        first, *others = rows(fork["blocks"])
        fork["blocks"] = columns([first | {key: value}, *({key: 0} | other for other in others)])

    return change


def change_status(report: dict[str, Any]) -> None:
    report["cells"][0]["forks"][0]["status"] = "crashed"


CONTRADICTIONS = {
    "a block ends before it begins": change_block("end_ns", 1),
    "a block waits longer than it takes": change_block("wait_ns", 10**15),
    "a block ends after the next begins": change_block("end_ns", 2**50),
    "a fork is there twice": lambda report: report["cells"][0]["forks"].append(
        report["cells"][0]["forks"][0]
    ),
    "a cell is ok and its fork is not": change_status,
}


@pytest.mark.parametrize("spoil", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_a_report_that_contradicts_itself_is_only_shown(tmp_path: Path, spoil: Any) -> None:
    (tmp_path / "clean").mkdir()
    clean = spoilt(tmp_path / "clean", lambda report: None)
    assert assay("validate", clean).returncode == 0
    path = spoilt(tmp_path, spoil)
    assert assay("validate", path).returncode == 2
    before = path.read_bytes()
    for command in (
        ["compare", clean, path],
        ["compare", path, clean],
        ["calibrate", "--from", clean, path, "--out", tmp_path / "calibration.json"],
        ["run", "--resume", path],
    ):
        done = assay(*command, folder=tmp_path)
        assert done.returncode == 2, command
        assert "contradicts itself" in done.stderr, command
    assert path.read_bytes() == before
    assert not (tmp_path / "calibration.json").exists()
    shown = assay("show", path)
    assert shown.returncode == 0
    assert "contradicts itself" in shown.stderr


@pytest.mark.parametrize("place", ["id", "reason", "reproduce", "backend", "workload"])
def test_a_script_in_a_name_is_shown_and_never_run(tmp_path: Path, place: str) -> None:
    evil = "<script>alert(1)</script>\x1b]0;owned\x07\n::error::owned\n|x|\"'&"

    def spoil(report: dict[str, Any]) -> None:
        cell = report["cells"][0]
        (cell["axes"] if place in cell["axes"] else cell)[place] = evil
        if place == "reason":
            report["cells"][0]["status"] = "crashed"

    path = spoilt(tmp_path, spoil)
    (tmp_path / "clean").mkdir()
    clean = spoilt(tmp_path / "clean", lambda report: None)
    for command, formats in FORMATS.items():
        for form in formats:
            files = [path] if command == "show" else [clean, path]
            done = assay(command, *files, "--format", form)
            out = done.stdout
            assert "\x1b" not in done.stderr, (command, form)
            assert not re.search(r"^\s*::error::owned", done.stderr, re.MULTILINE), (command, form)
            if command == "compare" and place in ("id", "backend", "workload"):
                assert done.returncode == 2, (command, form)  # the id is not that of the axes
                continue
            assert "\x1b" not in out, (command, form)
            assert not re.search(r"^::error::owned", out, re.MULTILINE), (command, form)
            if form in ("markdown", "junit"):
                assert "<script" not in out, (command, form)
            if form in ("json", "gbench"):
                json.loads(out)


def test_numbers_at_the_edge_of_what_a_report_holds_do_not_fall_over(tmp_path: Path) -> None:
    def spoil(report: dict[str, Any]) -> None:
        edge = {"begin_ns": -(2**63), "end_ns": 2**63 - 1, "steps": 2**63 - 1, "cpu_ns": 2**63 - 1}
        fork = report["cells"][0]["forks"][0]
        fork["blocks"] = columns([block | edge for block in rows(fork["blocks"])])
        report["cells"][0]["metrics"]["step_time"]["value"] = 1.7e308

    path = spoilt(tmp_path, spoil)
    for command in (["validate", path], ["show", path], ["compare", path, path], ["compare", GOLDEN, path]):
        assert assay(*command).returncode in (0, 2, 3, 4, 5, 6)


@pytest.mark.skipif(not shutil.which("jq"), reason="jq is not here")
def test_the_examples_with_jq_in_the_documentation_read_a_report(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "report.json")
    page = (ROOT / "docs/reference/report.md").read_text()
    (example,) = re.findall(r"```sh\n(jq.*?)```", page, re.DOTALL)
    done = subprocess.run(["sh", "-ec", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cells = json.loads(GOLDEN.read_text())["cells"]
    lines = done.stdout.splitlines()
    assert lines[0].split("\t") == [cells[0]["id"], "ok", str(cells[0]["metrics"]["step_time"]["value"])]
    timed = sum(b["kind"] == "timed" for c in cells for f in c["forks"] for b in rows(f["blocks"]))
    assert len(lines) == len(cells) + timed


def test_the_example_with_pandas_in_the_documentation_reads_a_report(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not here")
    shutil.copy(GOLDEN, tmp_path / "report.json")
    page = (ROOT / "docs/reference/report.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "0.00205" in done.stdout


def has_jsonlite() -> bool:
    look = ["Rscript", "-e", "library(jsonlite)"]
    return bool(shutil.which("Rscript")) and not subprocess.run(look, capture_output=True).returncode


@pytest.mark.skipif(not has_jsonlite(), reason="R with jsonlite is not here")
def test_the_example_in_r_in_the_documentation_reads_a_report(tmp_path: Path) -> None:
    shutil.copy(GOLDEN, tmp_path / "report.json")
    page = (ROOT / "docs/reference/report.md").read_text()
    (example,) = re.findall(r"```r\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.R").write_text(example)
    done = subprocess.run(["Rscript", "example.R"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "0.00205" in done.stdout


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "report.json"
    with path.open("w") as file:
        write_large(10_000, file, forks=3, blocks=20)
    return path


@pytest.mark.skipif(not os.environ.get("ASSAY_SPEED"), reason="speed is measured where ASSAY_SPEED is set")
def test_ten_thousand_cells_are_validated_and_compared_in_two_seconds_each(large: Path) -> None:
    for command in (["validate", large], ["compare", large, large, "--format", "json"]):
        begin = time.monotonic()
        done = assay(*command)
        seconds = time.monotonic() - begin
        assert done.returncode == 0, done.stderr
        assert seconds < 2, f"{command[0]} took {seconds:.2f} s"
