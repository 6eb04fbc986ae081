"""Medians with exact intervals over forks, as the program itself makes them (harness/core/statistics)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

FEWEST_FOR_BOUNDS = 6


@dataclass(frozen=True, slots=True)
class Estimate:
    value: float
    lower: float | None
    upper: float | None
    n: int


def estimate(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """Give the median and the narrowest symmetric order-statistic interval that attains `confidence`."""
    order = sorted(values)
    n = len(order)
    lower = upper = None
    if n >= FEWEST_FOR_BOUNDS:
        below = 0.0
        for k in range(1, n // 2 + 1):
            below += math.exp(
                math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 2) - n * math.log(2.0)
            )
            if 1 - 2 * below < confidence:
                break
            lower, upper = order[k - 1], order[n - k]
    return Estimate(median(order), lower, upper, n)


def quantile(values: Sequence[float], p: float) -> float:
    order = sorted(values)
    position = p * (len(order) - 1)
    below = int(position)
    above = min(below + 1, len(order) - 1)
    return order[below] + (position - below) * (order[above] - order[below])
