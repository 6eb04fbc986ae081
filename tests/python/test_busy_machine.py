"""A run next to other work ends in time with the order of its cells: ranked, or marked as provisional."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from busy_loop import busy_loop
from framework import ENVIRONMENTS
from program import PROGRAM, assay, told
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
SLACK = 15  # seconds: the last save, and a worker that is ended


@dataclass(frozen=True)
class Answer:
    """The answer of a run to the question which of its cells is faster."""

    order: list[str]  # series, the fastest first
    ranked: bool
    seconds: float
    group: dict[str, Any]
    cells: list[dict[str, Any]]


def answer_of(report: Path, seconds: float) -> Answer:
    document = told("show", report, "--format", "json")
    (group,) = document["groups"]
    cells = document["cells"]
    ranked = [place for place in group["in_rank"] if cells[place]["rank"] is not None]
    if len(ranked) > 1:
        assert group["rounds"] > 1 or group["provisional"] is not None, "one round is no ranking"
        places = ranked
    else:
        places = [row["cell"] for row in (group["provisional"] or {"rows": []})["rows"]]
    order = [cells[place]["series"] for place in places]
    return Answer(order, len(ranked) > 1, seconds, group, cells)


def run_busy(share: float, limit: int, report: Path, *arguments: object) -> Answer:
    begin = time.monotonic()
    with busy_loop(share):
        done = assay("run", *arguments, "--max-time", f"{limit}s", "--out", report, timeout=limit + 120)
    seconds = time.monotonic() - begin
    assert done.returncode in (0, 4), done.stderr
    assert seconds < limit + SLACK, f"{seconds:.0f} s, with --max-time {limit}s\n{done.stderr}"
    print(done.stdout, done.stderr)
    return answer_of(report, seconds)


def test_ends_with_an_order_next_to_a_busy_loop(tmp_path: Path) -> None:
    cells = [
        {"backend": "onednn", "mode": "graph"},
        {"backend": "reference", "mode": "eager"},
    ]
    config = {"workload": "mlp", "dataset": "synthetic", "forks": 2, "spare-rounds": 0, "blocks": 3}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config | {"title": "Two that are far apart", "cells": cells}))
    answer = run_busy(1, 60, tmp_path / "report.json", path)
    assert sorted(answer.order) == ["onednn graph", "reference eager"], (
        "an order, whichever it is next to other tests"
    )


@pytest.mark.skipif(
    not os.environ.get("ASSAY_NIGHTLY"), reason="it takes ten minutes: scripts/test --nightly"
)
@pytest.mark.skipif(
    not all((ENVIRONMENTS / name / "bin/python").exists() for name in ("mxnet", "jax")),
    reason="MXNet or JAX is not set up",
)
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_quick_start_ends_in_five_minutes_with_its_four_rows_in_order(share: float, tmp_path: Path) -> None:
    answer = run_busy(share, 300, tmp_path / "report.json", ROOT / "configs/quickstart.json")
    assert answer.order == ["onednn graph", "onednn primitives", "mxnet hybridize", "jax jit"]
    if not answer.ranked:
        assert "Provisional order" in answer.group["answer"]
        for cell in answer.cells:
            assert cell["rank"] is None and cell["ratio"] is None and cell["to_fastest"] is None
