"""Wrong adapters on purpose: tests/mutants. The long campaign over all frameworks is scripts/mutants."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import PROGRAM
from worker_under_test import ROOT

sys.path.insert(0, str(ROOT / "tests/mutants"))
from edits import EDITS, Edit
from false_alarms import alarms, table
from wrong import MUTANTS, Mutant


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.backend}: {edit.name}")
def test_every_edit_fits_its_file(edit: Edit) -> None:
    source = (ROOT / "backends" / edit.backend / edit.file).read_text()
    assert source.count(edit.old) == 1
    assert edit.old != edit.new


@pytest.mark.parametrize("kind", MUTANTS.values(), ids=lambda kind: kind.__name__)
def test_every_mutant_says_what_is_wrong(kind: type[Mutant]) -> None:
    assert kind.__doc__ and kind.__doc__ != Mutant.__doc__


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_check_finds_every_mistake_of_the_plain_adapter() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/mutants/run.py"), "--assay", str(PROGRAM), "--backends", "numpy"],
        capture_output=True, text=True, env=dict(os.environ), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    if "not set up" not in done.stdout:
        assert "mistakes: 18 of 18 found" in done.stdout
        assert "adapters as they are: 2 of 2 ok" in done.stdout


def test_onednn_has_every_mutant_of_the_adapters() -> None:
    worker = PROGRAM.parent / "tests/mutants/wrong-worker"
    if not worker.exists():
        pytest.skip(f"{worker} is not built")
    listed = subprocess.run([str(worker), "--list"], capture_output=True, text=True, check=True)
    expected = [f"{name}{' cheats' if kind.cheats else ''}" for name, kind in MUTANTS.items()]
    assert sorted(listed.stdout.split("\n")[:-1]) == sorted(expected)


def test_the_check_finds_mistakes_in_front_of_onednn() -> None:
    worker = PROGRAM.parent / "tests/mutants/wrong-worker"
    if not worker.exists():
        pytest.skip(f"{worker} is not built")
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/mutants/run.py"), "--assay", str(PROGRAM),
         "--backends", "onednn", "--modes", "compiled", "--only", "Skips"],
        capture_output=True, text=True, env=dict(os.environ), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "mistakes: 1 of 1 found" in done.stdout
    assert "cheats: 3 of 3 found" in done.stdout


def test_only_what_is_listed_is_no_false_alarm() -> None:
    results = {
        "mlp/torch/train/fp32/1": [{"mode": "eager", "status": "ok", "reason": "", "worst": 0.25}],
        "lenet5/jax/train/bf16/1": [{"mode": "jit", "status": "wrong_result", "reason": "b", "worst": 7.0}],
        "lenet5/torch/train/bf16/1": [
            {"mode": "eager", "status": "unsupported", "reason": "", "worst": None}
        ],
        "mlp/jax/infer/fp32/2": [{"mode": "jit", "status": "wrong_result", "reason": "w", "worst": 3.0}],
        "mlp/numpy/infer/fp32/2": [{"mode": "", "status": "no report", "reason": "gone", "worst": None}],
    }
    assert [line.split(" ")[0] for line in alarms(results)] == [
        "mlp/jax/infer/fp32/2",
        "mlp/numpy/infer/fp32/2",
    ]
    assert table(results)[2:] == ["| lenet5 | bf16 | 1 | 0 | 1 |  |", "| mlp | fp32 | 3 | 2 | 0 | 25 % |"]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_reference_raises_no_false_alarm(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests/mutants/false_alarms.py"), "--assay", str(PROGRAM),
               "--workloads", "mlp", "--backends", "reference", "--seeds", "1",
               "--out", str(tmp_path / "results.json")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "0 cells were refused" in done.stdout
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout, "finished runs are kept"
