"""The attributes of a window over images: a number, or a list that names the sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Numbers = int | Sequence[int]
Sides = tuple[tuple[int, int], tuple[int, int]]


def pair(of_axes: Numbers) -> tuple[int, int]:
    """Return the number for rows and that for columns."""
    if isinstance(of_axes, int):
        return of_axes, of_axes
    rows, columns = of_axes
    return rows, columns


def sides(padding: Numbers) -> Sides:
    """Return the padding (top, bottom) and (left, right); a list has [top, left, bottom, right]."""
    if isinstance(padding, int):
        return (padding, padding), (padding, padding)
    top, left, bottom, right = padding
    return (top, bottom), (left, right)


def even(padding: Numbers) -> tuple[int, int] | None:
    """Return the padding of rows and of columns if opposite sides have the same, else None."""
    (top, bottom), (left, right) = sides(padding)
    return (top, left) if top == bottom and left == right else None


def windows(extent: int, kernel: int, stride: int, pads: tuple[int, int]) -> int:
    """Return how many windows there are along one axis."""
    return (extent + sum(pads) - kernel) // stride + 1


def elements_inside(extents: Sequence[int], kernel: Numbers, stride: Numbers, padding: Numbers) -> np.ndarray:
    """Return for each window (rows, columns) how many of its elements are in the image."""
    counts: list[np.ndarray] = []
    axes = zip(extents, pair(kernel), pair(stride), sides(padding), strict=True)
    for extent, size, step, pads in axes:
        begin = np.arange(windows(extent, size, step, pads)) * step - pads[0]
        counts.append(np.minimum(begin + size, extent) - np.maximum(begin, 0))
    inside: np.ndarray = np.outer(counts[0], counts[1])
    return inside.astype(np.float32)
