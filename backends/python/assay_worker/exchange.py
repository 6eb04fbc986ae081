"""What the exchange of gradients costs one of several ranks: the command `exchange`, after the timed steps.

In turn, all ranks time the step that was timed, the same step without the exchange, and the exchange with
nothing else going on. The learning rate is 0, so parameters stay as they are; moments and running statistics
do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

# As in harness/worker/exchange_times.cpp.
SECONDS = 0.1  # that each time is measured for, about
ROUNDS, FEWEST_ROUNDS = 5, 3
LONG = 1.0  # a step of more seconds gets the fewest rounds
WARM_UP = 2
SLOT = 0  # the staged batch of every step

Step = Callable[[int, float, int], None]


@dataclass(frozen=True)
class Exchange:
    """The exchange of gradients, apart from the rest of a step."""

    gradient_bytes: int  # of the gradients that this rank gives to it in a step
    local_step: Step  # as Adapter.step, without the exchange: this rank updates with its own gradients
    bare: Callable[[], None]  # exchanges as many bytes, in the same parts; returns when they are there


class Measured(Protocol):
    """The part of an adapter that is measured."""

    def step(self, slot: int, learning_rate: float, step: int) -> None: ...

    def synchronize(self) -> None: ...

    def agree(self, value: int) -> int: ...

    def exchange(self) -> Exchange: ...


def exchange_times(adapter: Measured) -> dict[str, Any]:
    """Return the fields of the event `exchanged`. All ranks must call it at the same time."""
    exchange = adapter.exchange()
    number = 0

    def run_of(step: Step) -> Callable[[], None]:
        def run() -> None:
            nonlocal number
            number += 1
            step(SLOT, 0.0, number)

        return run

    runs = {
        "step_seconds": run_of(adapter.step),
        "local_seconds": run_of(exchange.local_step),
        "bare_seconds": exchange.bare,
    }
    # The first run may compile code of its own.
    seconds = {name: [_timed(adapter, run, 1) for _ in range(WARM_UP)][-1] for name, run in runs.items()}
    step = seconds["step_seconds"]
    # The other ranks take as many as rank 0.
    count = adapter.agree(max(1, round(SECONDS / max(step, 1e-6))))
    rounds = adapter.agree(FEWEST_ROUNDS if step > LONG else ROUNDS)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(_timed(adapter, run, count))
    return {"gradient_bytes": exchange.gradient_bytes, "steps": count, **times}


def _timed(adapter: Measured, run: Callable[[], None], count: int) -> float:
    """Return the seconds of one of `count` runs in a row, which all ranks begin together."""
    adapter.synchronize()
    adapter.agree(0)
    begin = time.perf_counter()
    for _ in range(count):
        run()
    adapter.synchronize()
    return (time.perf_counter() - begin) / count
