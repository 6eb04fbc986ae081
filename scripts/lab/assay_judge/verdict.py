"""The median of a cell's ratios, its exact interval, and the verdict."""

from __future__ import annotations

from enum import StrEnum
from math import comb
from statistics import median

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
    """Compare the interval of adapter / loop with 1 +- 2 %; if they overlap, the median decides."""
    bounds = interval(ratios)
    if bounds is None:
        return Verdict.TOO_FEW
    lower, upper, _ = bounds
    if lower > 1 + TOLERANCE:
        return Verdict.SLOWER
    if upper < 1 - TOLERANCE:
        return Verdict.FASTER
    return Verdict.WITHIN if abs(median(ratios) - 1) <= TOLERANCE else Verdict.UNDECIDED
