"""An error in a Python worker becomes a row with the right status, with any framework."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from framework import ENVIRONMENTS, FRAMEWORKS, command_of
from program import BUILD
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(not (BUILD / "assay").exists(), reason=f"{BUILD}/assay is not built")


@dataclass(frozen=True)
class Fault:
    name: str
    status: str
    code: str  # of its reason
    options: tuple[str, ...] = ("--check=false",)
    forks: int = 1


FAULTS = [
    Fault("import", "unavailable", "worker_unavailable"),
    Fault("exception", "failed", "worker_failed"),
    Fault("memory", "out_of_memory", "worker_out_of_memory"),
    Fault("crash", "crashed", "killed_by_signal"),
    Fault("loop", "timed_out", "time_limit", ("--check=false", "--time-limit", "3")),
    Fault("nan", "failed", "loss_not_finite"),
    Fault("moment", "wrong_result", "differs_from_oracle", ()),
    Fault("shape", "failed", "worker_failed"),
    # Not every later fork of a resident process is examined.
    Fault("questions", "failed", "exam_changed", ("--fork-style", "resident"), forks=3),
]
MODES = {"jax": "jit"}  # the others: eager, in which JAX compiles each op by itself
WORKERS = {"numpy": ROOT / "tests/numpy_backend"} | {f.name: ROOT / "backends" / f.name for f in FRAMEWORKS}


def faulty_backend(folder: Path, backend: str, fault: Fault) -> Path:
    """Register a backend of the same name whose worker is the faulty one."""
    description: dict[str, Any] = json.loads((WORKERS[backend] / "backend.json").read_text())
    worker = ROOT / "tests/python/faulty_worker.py"
    command = ["${interpreter}", str(worker)] if fault.name == "import" else command_of(backend, worker)
    (folder / backend).mkdir()
    (folder / backend / "backend.json").write_text(json.dumps(description | {"command": command}))
    return folder


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("backend", WORKERS)
def test_a_fault_is_a_row_with_its_status_and_its_reason(tmp_path: Path, backend: str, fault: Fault) -> None:
    if not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    environment = os.environ | {
        "ASSAY_BACKENDS": str(faulty_backend(tmp_path, backend, fault)),
        "WORKER": str(WORKERS[backend] / "worker.py"),
        "FAULT": fault.name,
    }
    report = tmp_path / "report.json"
    command = [BUILD / "assay", "run", "--workload", "mlp", "--dataset", "synthetic", "--backend", backend]
    command += [
        "--mode",
        MODES.get(backend, "eager"),
        "--steps",
        30,
        "--forks",
        fault.forks,
        "--threads",
        1,
        "--out",
        report,
    ]
    done = subprocess.run(
        [*map(str, command), *fault.options], env=environment, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stderr
    (cell,) = json.loads(report.read_text())["cells"]
    assert cell["status"] == fault.status, cell["reason"] + done.stderr
    assert cell["reason_code"] == fault.code, cell["reason"]
    validated = subprocess.run(
        [BUILD / "assay", "validate", report], capture_output=True, text=True, check=False
    )
    assert validated.returncode == 0, validated.stderr + validated.stdout
