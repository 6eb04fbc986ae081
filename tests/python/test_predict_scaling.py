"""scripts/lab/predict-scaling: a run on several hosts next to the model of its exchange."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from worker_under_test import ROOT

SCRIPT = ROOT / "scripts/lab/predict-scaling"


def cell(ranks: int, step: float, local: float | None = None, backend: str = "torch", **changes: Any) -> Any:
    values = {"step_time": step, "local_step_time": local, "gradient_bytes": 1e6 if local else None}
    axes = {"workload": "lenet5", "backend": backend, "mode": "eager", "batch": 8 * ranks}
    if ranks > 1:
        axes["variant"] = {"ranks": str(ranks), "scaling": "weak"}
    return {
        "status": "ok",
        "axes": axes,
        "metrics": {name: {"value": value} for name, value in values.items()},
        "forks": [{"settings": {"nodes": str(ranks)}}],
    } | changes


def printed(tmp_path: Path, cells: list[Any], *options: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({"cells": cells}))
    command = [sys.executable, str(SCRIPT), str(path), *(options or ("--mbit", "800", "--latency-us", "0"))]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.split() and line.split()[0].isdecimal()]


def test_a_step_is_a_local_step_and_a_ring(tmp_path: Path) -> None:
    done = printed(tmp_path, [cell(1, 0.01), cell(2, 0.022, 0.011), cell(4, 0.03, 0.012)])
    assert done.returncode == 0, done.stderr
    two, four, ten, hundred, thousand = rows(done.stdout)
    # A ring of two sends 1 MB in all, at 100 MB/s; one of four 1.5 MB.
    assert two == ["2", "11.00", "22.00", "21.00", "+5", "%", "45", "%", "48", "%"]
    assert four[:4] == ["4", "12.00", "30.00", "27.00"]
    assert ten == ["10", "28.00", "36", "%", "28.00", "36", "%"]
    assert hundred[1] == "29.80"
    assert thousand[1] == "29.98"


def test_a_ring_waits_for_each_host_and_servers_only_once(tmp_path: Path) -> None:
    done = printed(tmp_path, [cell(1, 0.01), cell(2, 0.02, 0.01)], "--mbit", "800", "--latency-us", "100")
    thousand = rows(done.stdout)[-1]
    assert thousand == ["1000", "229.78", "4", "%", "30.18", "33", "%"]


@pytest.mark.parametrize(
    "other",
    [
        cell(2, 0.02, 0.01, status="failed"),
        cell(2, 0.02, 0.01, forks=[{"settings": {"nodes": "1"}}]),
        cell(2, 0.02, 0.01, backend="jax"),
        cell(2, 0.02, 0.01) | {"axes": cell(2, 1)["axes"] | {"precision": "bf16"}},
        cell(2, 0.02),
    ],
    ids=["failed", "one host", "another backend", "another precision", "not measured"],
)
def test_a_report_without_a_pair_is_refused(tmp_path: Path, other: Any) -> None:
    done = printed(tmp_path, [cell(1, 0.01), other])
    assert done.returncode == 1
    assert "--scaling weak" in done.stderr


def test_what_is_no_report_is_refused(tmp_path: Path) -> None:
    done = printed(tmp_path, [{}])
    assert done.returncode == 1
    assert "is not a report" in done.stderr
    assert "Traceback" not in done.stderr
    assert printed(tmp_path, [], "--mbit", "0").returncode == 2
    assert printed(tmp_path, [], "--mbit", "1", "--hosts", "ten").returncode == 2


def test_a_shipped_report_is_read() -> None:
    report = ROOT / "results/samples/ranks-scaling/lenet5.json.gz"
    command = [sys.executable, str(SCRIPT), str(report), "--mbit", "1000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "each on its own host" in done.stderr, "its ranks shared one machine"
