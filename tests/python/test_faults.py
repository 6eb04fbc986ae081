"""An error in a Python worker becomes a row with the right status, with any framework."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import product
from pathlib import Path

import pytest
from faults import FAULTS, RANK_FAULTS
from framework import ENVIRONMENTS, FRAMEWORKS, command_of
from mutant_worker import HERE, register
from program import BUILD
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(not (BUILD / "assay").exists(), reason=f"{BUILD}/assay is not built")
MODES = {"jax": "jit"}  # the others: eager, in which JAX compiles each op by itself
WORKERS = {"numpy": ROOT / "tests/numpy_backend"} | {f.name: ROOT / "backends" / f.name for f in FRAMEWORKS}


@pytest.mark.parametrize(
    ("backend", "name"),
    [*product(WORKERS, FAULTS), ("numpy", "infinity"), ("numpy", "infinite-moment")],
    ids=lambda value: value,
)
def test_a_fault_is_a_row_with_its_status_and_its_reason(tmp_path: Path, backend: str, name: str) -> None:
    if not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    fault, folder = (FAULTS | RANK_FAULTS)[name], WORKERS[backend]
    changes = {}
    if name != "import":
        changes["command"] = [*command_of(backend, HERE / "mutant_worker.py"), str(folder), name]
    environment = os.environ | {"ASSAY_BACKENDS": str(register(tmp_path, backend, folder, name, **changes))}
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
    assert cell["reason_code"] in fault.codes, cell["reason"]
    validated = subprocess.run(
        [BUILD / "assay", "validate", report], capture_output=True, text=True, check=False
    )
    assert validated.returncode == 0, validated.stderr + validated.stdout
