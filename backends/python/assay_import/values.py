"""Finds values that no backend may be given."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from . import limits


def parts(array: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Go through a large array in parts: a test of all at once would need its memory again.

    Each part comes with the number of its first row.
    """
    rows = array if array.ndim else array.reshape(1)
    step = max(1, (1 << 22) // max(1, rows[0].size)) if len(rows) else 1
    for begin in range(0, len(rows), step):
        yield begin, rows[begin : begin + step]


def unusable_at(array: np.ndarray) -> tuple[int, ...] | None:
    """Return the place of the first element that is not finite or too large; None if there is none."""
    if array.dtype.kind != "f":
        return None
    for begin, part in parts(array):
        bad = ~(np.abs(part) <= limits.VALUE)
        if bad.any():
            first, *rest = (int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
            return (begin + first, *rest) if array.ndim else ()
    return None
