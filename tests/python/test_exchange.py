"""What a worker in Python answers to the command `exchange`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from assay_worker import Cell, Exchange, Program, TrainingAdapter, exchange
from assay_worker.exchange import exchange_times
from assay_worker.serve import Server
from worker_under_test import numpy_adapter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Rank:
    """A rank whose steps take a known time on a clock of its own; the exchange takes 10 ms of it."""

    def __init__(self, clock: Clock, seconds: float, agreed: list[int] | None = None) -> None:
        self._clock, self._seconds = clock, seconds
        self._agreed = agreed  # what rank 0 says; None: this is rank 0
        self.calls: list[str] = []
        self.steps: list[tuple[int, float, int]] = []

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        self._take("step", self._seconds)
        self.steps.append((slot, learning_rate, step))

    def synchronize(self) -> None:
        self.calls.append("synchronize")

    def agree(self, value: int) -> int:
        if value == 0:
            self.calls.append("barrier")
            return 0
        return value if self._agreed is None else self._agreed.pop(0)

    def exchange(self) -> Exchange:
        return Exchange(4096, self._local_step, lambda: self._take("bare", 0.01))

    def _local_step(self, slot: int, learning_rate: float, step: int) -> None:
        self._take("local", self._seconds - 0.01)
        self.steps.append((slot, learning_rate, step))

    def _take(self, name: str, seconds: float) -> None:
        self.calls.append(name)
        self._clock.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(exchange, "time", clock)
    return clock


def test_the_step_is_timed_with_and_without_the_exchange(clock: Clock) -> None:
    rank = Rank(clock, 0.03)
    found = exchange_times(rank)
    assert found["gradient_bytes"] == 4096
    assert found["steps"] == 3, "about 0.1 s of steps of 30 ms"
    assert found["step_seconds"] == pytest.approx([0.03] * 5)
    assert found["local_seconds"] == pytest.approx([0.02] * 5)
    assert found["bare_seconds"] == pytest.approx([0.01] * 5)


def test_parameters_stay_and_steps_are_numbered(clock: Clock) -> None:
    rank = Rank(clock, 0.03)
    exchange_times(rank)
    assert {(slot, rate) for slot, rate, _ in rank.steps} == {(0, 0.0)}
    assert [number for _, _, number in rank.steps] == list(range(1, len(rank.steps) + 1))


def test_all_ranks_begin_each_measurement_together(clock: Clock) -> None:
    rank = Rank(clock, 0.06)
    exchange_times(rank)
    last = ["synchronize", "barrier", "bare", "bare", "synchronize"]
    assert rank.calls[-5:] == last
    for place, call in enumerate(rank.calls[1:], 1):
        if call in ("step", "local", "bare") and rank.calls[place - 1] != call:
            assert rank.calls[place - 2 : place] == ["synchronize", "barrier"]


def test_long_steps_are_few(clock: Clock) -> None:
    rank = Rank(clock, 20.0)
    found = exchange_times(rank)
    assert (found["steps"], len(found["step_seconds"])) == (1, 3)
    assert rank.calls.count("step") == 2 + 3


def test_another_rank_takes_as_many_as_rank_0(clock: Clock) -> None:
    found = exchange_times(Rank(clock, 0.03, agreed=[7, 4]))
    assert (found["steps"], len(found["bare_seconds"])) == (7, 4)


def answer(make_cell: Callable[..., Any], adapter: type[TrainingAdapter], world: int) -> dict[str, Any]:
    folder = make_cell(world=world)
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(adapter, cell, lambda _: None)
    assert server.answer({"command": "compile"})["event"] == "compiled"
    return server.answer({"command": "exchange"})


def test_one_rank_exchanges_nothing(make_cell: Callable[..., Any]) -> None:
    found = answer(make_cell, numpy_adapter(), world=1)
    assert found == {"event": "exchanged", "reason": "[exchange] there is one rank"}


def test_an_adapter_that_cannot_leave_it_out_says_so(make_cell: Callable[..., Any]) -> None:
    class Alone(numpy_adapter()):  # type: ignore[misc]
        def __init__(self, program: Program, cell: Cell) -> None:
            super().__init__(program, Cell(cell.folder, cell.request | {"world": 1}))

    found = answer(make_cell, Alone, world=2)
    assert found["event"] == "exchanged"
    assert "cannot leave the exchange out" in found["reason"]
    assert set(found) == {"event", "reason"}
