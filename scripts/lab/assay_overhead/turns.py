"""Two programs take turns on the processors; what each timed within its own turns makes the ratios."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from assay_overhead.processes import TICKS, Running

ADAPTER, LOOP = "adapter", "loop"
DISTURBED, STOLEN = "disturbed", "stolen"
MAX_DISTURBED = 0.03  # of the processors' time, as in a fork of Assay
RESOLUTION = 3 / TICKS  # seconds: the times of a turn are differences of a few counters of ticks
MIN_BLOCKS = 2  # of a turn, after the first block, which finds the other program's data in the caches


@dataclass(frozen=True)
class Block:
    """Timed steps. The times are of CLOCK_MONOTONIC, which all processes share."""

    begin_ns: int
    end_ns: int
    steps: int

    @property
    def step_seconds(self) -> float:
        return 1e-9 * (self.end_ns - self.begin_ns) / self.steps


@dataclass(frozen=True)
class Turn:
    """The time in which one side had the processors to itself."""

    side: str
    begin_ns: int
    end_ns: int
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """Two turns in succession, one of each side."""

    adapter_seconds: float
    loop_seconds: float
    flags: tuple[str, ...]

    @property
    def value(self) -> float:
        return self.adapter_seconds / self.loop_seconds


def step_seconds(turn: Turn, blocks: Sequence[Block]) -> float | None:
    """Return the median step of the blocks that lie within a turn; None if they are too few.

    A block in which its program was stopped lies in no turn.
    """
    within = [one for one in blocks if turn.begin_ns <= one.begin_ns and one.end_ns <= turn.end_ns][1:]
    return median(one.step_seconds for one in within) if len(within) >= MIN_BLOCKS else None


def flags_of(turns: Sequence[Turn]) -> tuple[str, ...]:
    """Return the disturbances of two turns: shares of others in either, and of a hypervisor in both.

    The share of a hypervisor depends on how often a side's threads wait.
    """
    either = {flag for turn in turns for flag in turn.flags}
    both = {flag for flag in either if all(flag in turn.flags for turn in turns)}
    return tuple(sorted((either & {DISTURBED}) | (both & {STOLEN})))


def ratios_of(turns: Sequence[Turn], blocks: Mapping[str, Sequence[Block]]) -> list[Ratio]:
    """Pair the first turn with the second, the third with the fourth, and so on.

    A pair is left out if one side timed too few blocks in its turn, because it was not warm yet or had ended.
    """
    found = []
    for pair in zip(turns[::2], turns[1::2], strict=False):
        seconds = {turn.side: step_seconds(turn, blocks[turn.side]) for turn in pair}
        adapter, loop = seconds[ADAPTER], seconds[LOOP]
        if adapter is not None and loop is not None:
            found.append(Ratio(adapter, loop, flags_of(pair)))
    return found


class Watch:
    """The share of the processors that neither a side nor this script used."""

    def __init__(self, side: Running) -> None:
        self._side = side
        self._begin = self._read()

    def flags(self) -> tuple[str, ...]:
        wall, idle, steal, own = (end - begin for begin, end in zip(self._begin, self._read(), strict=True))
        whole = len(os.sched_getaffinity(0)) * wall
        taken = {DISTURBED: whole - idle - steal - own, STOLEN: steal}
        allowed = MAX_DISTURBED * whole + RESOLUTION
        return tuple(flag for flag, seconds in taken.items() if seconds > allowed)

    def _read(self) -> tuple[float, float, float, float]:
        """Seconds: wall, the processors' idle and stolen time, and the time of the side and this script."""
        names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
        fields = [[int(field) for field in line[1:]] for line in lines if line[0] in names]
        idle = sum(field[3] + field[4] for field in fields) / TICKS
        steal = sum(field[7] for field in fields) / TICKS
        own = os.times()
        return time.monotonic(), idle, steal, own.user + own.system + self._side.processor_seconds()


def take_turn(side: str, running: Running, seconds: float) -> Turn:
    """Let a stopped side run that long, or to its end, and stop it again."""
    watch, begin = Watch(running), time.monotonic_ns()
    running.go_on()
    running.wait_until_ended(seconds)
    end = time.monotonic_ns()
    flags = watch.flags()
    running.stop()
    return Turn(side, begin, end, flags)


def alternate(order: tuple[str, str], sides: Mapping[str, Running], seconds: float) -> list[Turn]:
    """Let the sides take turns until the adapter has timed all its blocks and ended. Both are stopped before.

    The last turn is a whole one of the loop, which goes on until it is asked to end.
    """
    turns: list[Turn] = []
    while not sides[ADAPTER].ended() or len(turns) % 2:
        if sides[LOOP].ended():
            return turns
        side = order[len(turns) % 2]
        turns.append(take_turn(side, sides[side], seconds))
    return turns
