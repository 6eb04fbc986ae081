"""The how-to pages, followed in a scratch copy of the tree: a workload, a framework elsewhere, a plot."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import BUILD, PROGRAM
from worker_under_test import ROOT

HOW_TO = ROOT / "docs/how-to"
SAMPLE = ROOT / "results/samples/smartia-table-4/mlp.json.gz"


def block(page: str, language: str) -> str:
    """The one code block in this language."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return str(found)


def indented(page: str, first: str) -> str:
    """The indented block whose first line begins so."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    lines = text[text.index("    " + first) :].splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("    ")), len(lines))
    return "\n".join(line[4:] for line in lines[:end])


def insert_after(file: Path, line: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(line) == 1, f"{file.name}: {line}"
    file.write_text(text.replace(line, line + new), encoding="utf-8")


def call(*command: object, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: the files that git knows or would add."""
    tree = tmp_path_factory.mktemp("scratch") / "assay"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode != 0:
        pytest.skip("this tree is not a git checkout, so it is not known which files belong to it")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    return tree


@pytest.mark.nightly  # it builds the program again
def test_the_workload_of_the_page_is_built_checked_and_measured(scratch: Path) -> None:
    (scratch / "workloads/tiny.cpp").write_text(block("add-a-workload.md", "cpp"))
    insert_after(scratch / "workloads/registry.hpp", "#define ASSAY_WORKLOADS(X) \\\n", "  X(tiny) \\\n")
    options = ("-DASSAY_TESTS=OFF", "-DASSAY_BACKEND_ONEDNN=OFF", "-DASSAY_BACKEND_CUDA=OFF")
    shared = {"CCACHE_BASEDIR": str(scratch), "CCACHE_NOHASHDIR": "1"}
    call("cmake", "--preset", "dev", *options, folder=scratch, **shared)
    build = scratch / "build/dev"
    call("cmake", "--build", build, "--target", "assay", "assay-worker-reference", folder=scratch, **shared)
    program = build / "assay"
    assert "11,738" in call(program, "inspect", "tiny", folder=scratch).replace("11738", "11,738")
    cell = ("--workload", "tiny", "--backend", "reference", "--mode", "eager", "--threads", "1")
    cell = (*cell, "--dataset", "synthetic")
    call(program, "check", *cell, "--out", "c.json", folder=scratch)
    (checked,) = json.loads((scratch / "c.json").read_text())["cells"]
    assert checked["equivalence"]["passed"] is True
    call(program, "run", *cell, "--quick", "--out", "r.json", folder=scratch)
    (measured,) = json.loads((scratch / "r.json").read_text())["cells"]
    assert measured["status"] == "ok", measured["reason"]
    call(program, "docs", "memory", folder=scratch)
    assert "| tiny |" in (scratch / "docs/reference/memory.md").read_text()


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_a_backend_begun_outside_of_the_tree_works_and_agrees_with_the_page(tmp_path: Path) -> None:
    home = tmp_path / "backends"
    call(ROOT / "scripts/new-backend", "mine", home, folder=tmp_path)
    written = json.loads((home / "mine/backend.json").read_text())
    paged = json.loads(indented("add-a-framework.md", '{"name": "numpy"'))
    paged |= json.loads("{" + indented("add-a-framework.md", '"environment":') + "}")
    same = paged.keys() - {"name", "description"}
    assert {key: written[key] for key in same} == {key: paged[key] for key in same}
    assert str(ROOT) not in (home / "mine/worker.py").read_text()
    assert "parents[2]" not in (home / "mine/worker.py").read_text()
    found = {"ASSAY_BACKENDS": str(home)}
    listed = json.loads(call(PROGRAM, "list", "backends", "--json", folder=tmp_path, **found))
    (mine,) = [backend for backend in listed if backend["name"] == "mine"]
    if not mine["available"]:
        pytest.skip(mine["reason"])
    report = tmp_path / "r.json"
    cell = ("--workload", "mlp", "--dataset", "synthetic", "--backend", "mine", "--threads", "1")
    call(PROGRAM, "check", *cell, "--out", report, folder=tmp_path, **found)
    (checked,) = json.loads(report.read_text())["cells"]
    assert checked["status"] == "ok"
    assert checked["equivalence"]["passed"] is True


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_a_backend_that_only_infers_is_proven_and_its_mistake_is_found(tmp_path: Path) -> None:
    home = tmp_path / "backends"
    call(ROOT / "scripts/new-backend", "--infer", "runtime", home, folder=tmp_path)
    assert len((home / "runtime/worker.py").read_text().splitlines()) < 60
    found = {"ASSAY_BACKENDS": str(home)}
    listed = json.loads(call(PROGRAM, "list", "backends", "--json", folder=tmp_path, **found))
    (runtime,) = [backend for backend in listed if backend["name"] == "runtime"]
    if not runtime["available"]:
        pytest.skip(runtime["reason"])

    def measured(task: str = "infer", may_fail: bool = False) -> dict[str, Any]:
        report = tmp_path / "r.json"
        cell = ("--workload", "mlp", "--dataset", "synthetic", "--backend", "runtime", "--threads", "1")
        options = ("--task", task, "--quick", "--forks", "1", "--out", report)
        command = [str(part) for part in (PROGRAM, "run", *cell, *options)]
        ended = subprocess.run(
            command, cwd=tmp_path, env=os.environ | found, capture_output=True, text=True, check=False
        )
        assert may_fail or ended.returncode == 0, ended.stderr
        (of_cell,) = json.loads(report.read_text())["cells"]
        return dict(of_cell)

    right = measured()
    assert right["status"] == "ok"
    assert right["equivalence"]["passed"] is True
    assert measured("train", may_fail=True)["status"] == "unsupported"
    worker = home / "runtime/worker.py"
    worker.write_text(worker.read_text().replace("np.maximum(x, 0)", "np.maximum(x, 1e-3)"))
    assert measured(may_fail=True)["status"] == "wrong_result"


def test_a_backend_is_not_begun_over_another_one_or_with_a_bad_name(tmp_path: Path) -> None:
    def begin(name: str) -> subprocess.CompletedProcess[str]:
        command = [ROOT / "scripts/new-backend", name, tmp_path]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert begin("mine").returncode == 0
    (tmp_path / "mine/worker.py").write_text("changed")
    again = begin("mine")
    assert again.returncode == 1
    assert str(tmp_path / "mine") in again.stderr
    assert (tmp_path / "mine/worker.py").read_text() == "changed"
    assert begin("a/b").returncode == 1
    assert not (tmp_path / "a").exists()


def test_the_plot_of_the_page_is_drawn_in_a_copy_of_the_tree(scratch: Path) -> None:
    pytest.importorskip("altair", reason="altair is not installed: scripts/setup installs it")
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    plots = scratch / "scripts/assay_plots/plots"
    (plots / "forks.py").write_text(block("add-a-plot.md", "python"))
    insert_after(plots / "__init__.py", "    first_epoch,\n", "    forks,\n")
    insert_after(plots / "__init__.py", "    first_epoch.PLOT,\n", "    forks.PLOT,\n")
    drawn = scratch / "drawn"
    command = (scratch / "scripts/plot", SAMPLE, "--only", "forks", "--format", "svg", "--out", drawn)
    call(*command, folder=scratch, ASSAY_PROGRAM=str(BUILD / "assay"))
    (picture,) = drawn.rglob("forks*.svg")
    assert "tensorflow" in picture.read_text()
