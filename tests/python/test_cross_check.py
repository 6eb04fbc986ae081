"""scripts/cross-check: what it makes of the JSON of two engines."""

from __future__ import annotations

import importlib.machinery
import importlib.util
from types import ModuleType

import pytest
from worker_under_test import ROOT


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("cross_check", str(ROOT / "scripts" / "cross-check"))
    spec = importlib.util.spec_from_loader("cross_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def row(name: str, time: float, unit: str = "ns", **more: object) -> dict[str, object]:
    return {"name": name, "run_type": "iteration", "real_time": time, "time_unit": unit, **more}


def test_takes_the_median_of_the_repetitions_in_nanoseconds(script: ModuleType) -> None:
    rows = [row("op/relu/x/16", 3.0, "us"), row("op/relu/x/16", 1000.0), row("op/relu/x/16", 2.0, "us")]
    assert script.times_of({"benchmarks": rows}) == {"op/relu/x/16": 2000.0}


def test_a_cell_has_one_name_whatever_google_benchmark_adds_to_it(script: ModuleType) -> None:
    rows = [row("op/relu/x/16/iterations:3/real_time", 5.0), row("op/dot/x/16/real_time", 7.0)]
    assert script.times_of({"benchmarks": rows}) == {"op/relu/x/16": 5.0, "op/dot/x/16": 7.0}


def test_leaves_out_aggregates_and_what_was_not_timed(script: ModuleType) -> None:
    rows = [
        row("op/relu/x_mean", 5.0) | {"run_type": "aggregate"},
        row("op/lstm/x", 0.0, error_occurred=True),
        row("op/dot/x", 1.0),
    ]
    assert script.times_of({"benchmarks": rows}) == {"op/dot/x": 1.0}


def test_ratios_are_paired_within_rounds(script: ModuleType) -> None:
    rounds = [({"a": 2.0, "b": 1.0}, {"a": 1.0}), ({"a": 8.0}, {"a": 4.0, "b": 9.0})]
    assert script.ratios_of(rounds) == {"a": [2.0, 2.0]}
