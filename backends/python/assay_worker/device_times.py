"""What a single op's steps take on the device alone: the command `time_device`, after the timed steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .errors import Unsupported

# As in harness/engine/device_times.cpp.
SECONDS_OF_RUN = 0.02  # about
SECONDS_OF_TRIAL = 1e-3  # then the launch, which takes some microseconds, is little of it
MAX_SECONDS_OF_PASS = 0.2  # more operands than that reads are in no cache
MAX_STEPS = 1 << 14  # of a run: a larger graph takes seconds to make
GROWTH = 8  # from one trial to the next
RUNS, MIN_RUNS = 5, 3
LONG_STEP = 1.0  # seconds; then there are the fewest runs

# Runs the recorded steps and returns the seconds of all of them, by the device's clock.
Run = Callable[[], float]


@dataclass(frozen=True)
class DeviceTimes:
    """Of many steps, handed over at once: `step_seconds` has the mean of a step for each run of that many."""

    steps: int
    step_seconds: list[float]


def times_of(slots: int, record: Callable[[int], Run]) -> DeviceTimes:
    """Choose how many steps are recorded, over `slots` staged operands in turn, and time them.

    Raise Unsupported if a run cannot pass over all operands: caches would hold more of them than in the steps
    that were timed.
    """
    tried = 1
    seconds = record(tried)()
    while seconds < SECONDS_OF_TRIAL and tried < MAX_STEPS:
        tried = min(GROWTH * tried, MAX_STEPS)
        seconds = record(tried)()
    step = seconds / tried
    steps = _steps_of_run(slots, step)
    run = record(steps)
    runs = MIN_RUNS if step > LONG_STEP else RUNS
    return DeviceTimes(steps, [run() / steps for _ in range(runs)])


def _steps_of_run(slots: int, step: float) -> int:
    """Return whole passes over the operands."""
    wanted = min(max(1, _steps_in(SECONDS_OF_RUN, step)), MAX_STEPS)
    if wanted >= slots:
        return wanted // slots * slots
    steps = max(wanted, min(slots, _steps_in(MAX_SECONDS_OF_PASS, step)))
    if steps > MAX_STEPS:
        raise Unsupported("[time_device] the op has too many operands for one graph")
    return steps


def _steps_in(seconds: float, step: float) -> int:
    any_number = 1 << 30
    return any_number if step <= 0 else math.floor(min(seconds / step, any_number) + 0.5)
