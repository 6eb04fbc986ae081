"""The tutorial "Measure your own model", command by command, with fewer and shorter forks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from framework import ENVIRONMENTS
from program import BUILD, PROGRAM
from test_doc_commands import blocks
from worker_under_test import ROOT

PAGE = (ROOT / "docs/tutorial/own-model.md").read_text(encoding="utf-8")
SETUP = re.compile(r"    assay setup (\S+)\n").findall(PAGE)[0].split(",")
BACKENDS = {"onednn", "torch", "jax", "tensorflow", "onnxruntime", "openvino"}
# Without --quick, which would cut a slow machine off after its two minutes for a backend.
SHORT = "--forks 1 --spare-rounds 0 --blocks 2 --block-seconds 0.02 --warm-up-seconds 0.05"
MODES = {"train": "eager,graph,jit", "infer": "eager,graph,jit,enable-all,latency"}  # they start quickly

TORCH = ENVIRONMENTS / "torch/bin/python"
needs_torch = pytest.mark.skipif(not TORCH.exists(), reason="not set up: assay setup torch")


@pytest.fixture
def exported(tmp_path: Path) -> Path:
    """A folder with the model that the page exports."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    subprocess.run([TORCH, "-c", code], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


@needs_torch
def test_its_dry_run_prints_what_it_says(exported: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "assay_import", "net.pt2", "--dry-run"],
        cwd=exported,
        env={"PYTHONPATH": str(ROOT / "backends/python")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "".join(f"    {line}\n" for line in done.stdout.splitlines()) in PAGE


def commands() -> Iterator[str]:
    """The commands after the set-up, each on one line."""
    for language, lines, _ in blocks(PAGE):
        text = re.sub(r" *\\\n *", " ", "\n".join(lines))
        if not language and text.startswith("assay ") and not text.startswith("assay setup"):
            yield from text.splitlines()


def done(command: str, folder: Path) -> None:
    environment = os.environ | {"PATH": f"{BUILD}:{os.environ['PATH']}"}
    found = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, f"{command}\n{found.stdout}{found.stderr}"


def cells_of(report: Path) -> dict[str, list[dict[str, Any]]]:
    cells: dict[str, list[dict[str, Any]]] = {}
    for cell in json.loads(report.read_text())["cells"]:
        cells.setdefault(cell["axes"]["backend"], []).append(cell)
    return cells


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.skipif(
    any(not (ENVIRONMENTS / name / "bin/python").exists() for name in SETUP),
    reason=f"not set up: assay setup {','.join(SETUP)}",
)
def test_its_commands_make_what_it_says(exported: Path) -> None:
    for command in commands():
        task = re.search(r"assay run .*--task (\S+)", command)
        assert task or not command.startswith("assay run")
        done(f"{command} {SHORT} --mode {MODES[task[1]]}" if task else command, exported)
    inferred, trained = cells_of(exported / "reports/net.json"), cells_of(exported / "reports/net-train.json")
    assert set(inferred) == BACKENDS
    assert all({cell["axes"]["batch"] for cell in cells} == {1, 32} for cells in inferred.values())
    assert set(trained) == {"onednn", "torch", "jax", "tensorflow"}
    for cell in (cell for cells in (*inferred.values(), *trained.values()) for cell in cells):
        assert cell["status"] == "ok", cell["reason"]
