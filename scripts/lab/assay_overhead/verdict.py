"""The median of a cell's ratios, its exact interval, and the verdict."""

from __future__ import annotations

from enum import StrEnum
from math import comb

TOLERANCE, CONFIDENCE = 0.02, 0.95


class Verdict(StrEnum):
    WITHIN = "within"
    UNDECIDED = "undecided"
    FASTER = "faster"
    SLOWER = "slower"
    TOO_FEW = "too few turns"


def interval(ratios: list[float]) -> tuple[float, float, float] | None:
    """Return order statistics that enclose the median, and their confidence; None: too few ratios."""
    n, ordered = len(ratios), sorted(ratios)
    for below in range(n // 2, 0, -1):
        held = 1 - 2 * sum(comb(n, i) for i in range(below)) / 2**n
        if held >= CONFIDENCE:
            return ordered[below - 1], ordered[n - below], held
    return None


def verdict(ratios: list[float]) -> Verdict:
    bounds = interval(ratios)
    return Verdict.TOO_FEW if bounds is None else verdict_of(*bounds[:2])


def verdict_of(lower: float, upper: float) -> Verdict:
    """Compare the interval of adapter / loop with 0.98 to 1.02: within only if all of it is in there."""
    if lower > 1 + TOLERANCE:
        return Verdict.SLOWER
    if upper < 1 - TOLERANCE:
        return Verdict.FASTER
    is_inside = lower >= 1 - TOLERANCE and upper <= 1 + TOLERANCE
    return Verdict.WITHIN if is_inside else Verdict.UNDECIDED
