"""What a worker in Python answers to the command `time_device`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from assay_worker import Cell, TrainingAdapter, Unsupported
from assay_worker.device_times import DeviceTimes, times_of
from assay_worker.serve import Server
from worker_under_test import numpy_adapter


class Device:
    """A device on which each step takes as long."""

    def __init__(self, step: float) -> None:
        self._step = step
        self.recorded: list[int] = []

    def record(self, steps: int) -> Callable[[], float]:
        self.recorded.append(steps)
        return lambda: steps * self._step


def ask(slots: int, step: float) -> DeviceTimes:
    device = Device(step)
    times = times_of(slots, device.record)
    assert (device.recorded[0], device.recorded[-1]) == (1, times.steps)
    assert len(times.step_seconds) == (3 if step > 1 else 5)
    assert times.step_seconds == pytest.approx([step] * len(times.step_seconds))
    return times


# As DeviceTimes in tests/unit/engine/device_times_test.cpp.
@pytest.mark.parametrize(
    ("slots", "step", "steps"),
    [
        pytest.param(1, 1e-5, 2000, id="20 ms"),
        pytest.param(300, 1e-5, 1800, id="whole passes"),
        pytest.param(5000, 1e-5, 5000, id="a pass of 50 ms"),
        pytest.param(16, 1e-2, 16, id="few operands"),
        pytest.param(1000, 1e-2, 20, id="a pass takes long"),
        pytest.param(8, 0.5, 1, id="a step takes long"),
        pytest.param(1, 1e-9, 1 << 14, id="a short step"),
        pytest.param(1 << 14, 1e-6, 1 << 14, id="many operands"),
        pytest.param(4, 0.0, 1 << 14, id="no time"),
    ],
)
def test_a_run_has_whole_passes_and_lasts_about_20_ms(slots: int, step: float, steps: int) -> None:
    assert ask(slots, step).steps == steps


def test_a_long_step_runs_less_often() -> None:
    assert math.isclose(ask(1, 2.0).step_seconds[0], 2.0)


def test_an_estimate_is_of_a_run_that_hides_its_launch() -> None:
    device = Device(1e-5)
    times_of(1, device.record)
    assert device.recorded == [1, 8, 64, 512, 2000]


def test_operands_that_caches_would_hold_are_not_timed() -> None:
    with pytest.raises(Unsupported, match="too many operands"):
        times_of(1 << 16, Device(1e-6).record)


def answer(make_cell: Callable[..., Any], adapter: type[TrainingAdapter]) -> dict[str, Any]:
    folder = make_cell()
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(adapter, cell, lambda _: None)
    assert server.answer({"command": "compile"})["event"] == "compiled"
    return server.answer({"command": "time_device"})


def test_a_worker_answers_with_the_times(make_cell: Callable[..., Any]) -> None:
    class Timed(numpy_adapter()):  # type: ignore[misc]
        def device_times(self) -> DeviceTimes:
            return times_of(2, Device(1e-5).record)

    found = answer(make_cell, Timed)
    assert (found["event"], found["steps"]) == ("device_timed", 2000)
    assert found["step_seconds"] == pytest.approx([1e-5] * 5)
    assert set(found) == {"event", "steps", "step_seconds"}


def test_a_failure_is_a_reason_and_costs_nothing_else(make_cell: Callable[..., Any]) -> None:
    class Starved(numpy_adapter()):  # type: ignore[misc]
        def device_times(self) -> DeviceTimes:
            raise MemoryError("no room for a graph")

    found = answer(make_cell, Starved)
    assert found == {
        "event": "device_timed",
        "reason": "[time_device] failed: MemoryError: no room for a graph",
    }


def test_an_adapter_that_cannot_time_its_device_says_so(make_cell: Callable[..., Any]) -> None:
    found = answer(make_cell, numpy_adapter())
    assert found["event"] == "device_timed"
    assert "[time_device]" in found["reason"]
    assert set(found) == {"event", "reason"}
