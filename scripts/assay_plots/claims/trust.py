"""Why a number may decide nothing: the rules by which `assay show` ranks a cell, for a pair of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assay_plots.report import Cell, Item

ONE_PROCESS = "over the rounds of one process (resident), which says nothing of another process"

ONE_SEED = "every fork has the same seed: repeats of it show nothing of other seeds"
OF_A_SEED = ("_accuracy", "_loss")  # metrics that follow from the seed


# What the machine did to the times. It changes no accuracy and no memory.
OF_TIMES = ("disturbed", "placement", "uncovered", "frozen", "cpu_quota", "throttled", "unlike_hosts")
_WORDS = {
    "disturbed": "no round counts: other processes used the processors in each",
    "cpu_quota": "no round counts: a CPU quota stopped each",
    "profiled": "each operator was timed, which slows the steps",
    "throttled": "the GPU lowered its clocks",
    "unlike_hosts": "its ranks ran on machines that differ",
}


def doubt_of_cell(cell: Cell, metric: Item, exact: bool) -> str:
    """Say why the cell's number cannot decide; empty if it can."""
    if metric.section == "memory_plans":
        return ""
    doubts = []
    oracle = cell.kind == "oracle" and not cell.equivalence.checked
    if not (cell.equivalence.passed or oracle):
        doubts.append("it was not compared with the oracle")
    if not exact:
        flags = [flag for flag in cell.flags if not (metric.every_fork and flag in OF_TIMES)]
        doubts += [_WORDS.get(flag, flag) for flag in flags]
    return f"{cell.series}: {', '.join(doubts)}" if doubts else ""


def doubt_of_pair(cell: Cell, other: Cell | None, metric: Item, exact: bool) -> str:
    """Say why the pair's number cannot decide; empty if it can."""
    sides = [cell] if other is None else [cell, other]
    for side in sides:
        if doubt := doubt_of_cell(side, metric, exact):
            return doubt
    if exact:
        return ""
    forks = [fork for side in sides for fork in side.counted_forks()]
    if metric.name.endswith(OF_A_SEED) and len({fork.seed for fork in forks}) == 1:
        return ONE_SEED
    sessions = {fork.session for fork in forks}
    if len(sessions) > 1:
        return f"its forks are of {len(sessions)} sessions, which may be days apart"
    if not metric.every_fork and any(fork.resident for fork in forks):
        return ONE_PROCESS
    return ""


def marks_of(run: Mapping[str, Any]) -> list[str]:
    """Say what a reader must know of the report behind a verdict."""
    return ["from a working copy with uncommitted changes"] if run.get("dirty") is True else []
