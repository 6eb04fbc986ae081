"""Values of a .pt2 that depend on no input: positions, masks, zeros. A function returns None if it cannot."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import limits
from .pt2_call import Call
from .pt2_file import TYPES

Array = np.ndarray


def sized(c: Call, name: str) -> tuple[int, ...] | None:
    """Return a shape that is known and small."""
    found = c.get(name, [])
    if any(not isinstance(extent, int) or extent < 0 for extent in found):
        return None
    return tuple(found) if math.prod(found) <= limits.FOLDED_ELEMENTS else None


def typed(c: Call, array: Array) -> Array:
    dtype = TYPES.get(c.get("dtype", -1))
    return array if dtype is None else array.astype(dtype)


def arange(c: Call) -> Array | None:
    begin, end, step = c.get("start", 0), c.get("end"), c.get("step", 1)
    numbers = (begin, end, step)
    if any(isinstance(n, bool) or not isinstance(n, (int, float)) for n in numbers) or not step:
        return None
    if abs((end - begin) / step) > limits.FOLDED_ELEMENTS:
        return None
    made = np.arange(begin, end, step)
    return typed(c, made.astype(np.float32) if made.dtype.kind == "f" else made)


def full(value: float | None) -> Callable[[Call], Array | None]:
    def make(c: Call) -> Array | None:
        shape = sized(c, "size")
        fill = c.get("fill_value") if value is None else value
        if shape is None or not isinstance(fill, (int, float)):
            return None
        return typed(c, np.full(shape, fill, np.float32 if c.get("dtype") is None else None))

    return make


def like(value: float | None) -> Callable[[Call], Array | None]:
    def make(c: Call) -> Array | None:
        given = c.array("self")
        fill = c.get("fill_value") if value is None else value
        return typed(c, np.full(given.shape, fill, given.dtype)) if isinstance(fill, (int, float)) else None

    return make


def elementwise(function: Callable[..., Array]) -> Callable[[Call], Array | None]:
    def make(c: Call) -> Array | None:
        first = c.array("self")
        other = c.get("other")
        second = c.array("other") if c.optional("other") else other
        if second is None or c.get("alpha", 1) != 1 or c.get("rounding_mode") is not None:
            return None
        if np.broadcast(first, second).size > limits.FOLDED_ELEMENTS:
            return None
        with np.errstate(all="ignore"):
            made = np.asarray(function(first, second))
        return made.astype(np.float32) if made.dtype == np.float64 and first.dtype != np.float64 else made

    return make


def expand(c: Call) -> Array | None:
    given, size = c.array("self"), c.get("size", [])
    if any(not isinstance(extent, int) for extent in size) or len(size) < given.ndim:
        return None
    shape = [
        given.shape[i - len(size)] if extent == -1 and len(size) - i <= given.ndim else extent
        for i, extent in enumerate(size)
    ]
    if min(shape, default=0) < 0 or math.prod(shape) > limits.FOLDED_ELEMENTS:
        return None
    return np.broadcast_to(given, shape)


def slice_(c: Call) -> Array | None:
    given = c.array("self")
    axis = c.axis(c.get("dim", 0))
    index: list[Any] = [slice(None)] * given.ndim
    index[axis] = slice(c.get("start", 0), c.get("end"), c.get("step", 1))
    return np.asarray(given[tuple(index)])


def select(c: Call) -> Array | None:
    given = c.array("self")
    index = c.get("index")
    axis = c.axis(c.get("dim", 0))
    fits = isinstance(index, int) and -given.shape[axis] <= index < given.shape[axis]
    return np.asarray(np.take(given, index, axis)) if fits else None


def view(c: Call) -> Array | None:
    given, size = c.array("self"), c.get("size", c.get("shape", []))
    if any(not isinstance(extent, int) for extent in size):
        return None
    try:
        return given.reshape(size)
    except ValueError:
        return None


def where(c: Call) -> Array | None:
    parts = [c.array(name) if c.optional(name) else c.get(name) for name in ("condition", "self", "other")]
    if any(part is None for part in parts) or np.broadcast(*parts).size > limits.FOLDED_ELEMENTS:
        return None
    made = np.where(*parts)
    return made.astype(np.float32) if made.dtype == np.float64 else made


def masked_fill(c: Call) -> Array | None:
    given, mask = c.array("self"), c.array("mask")
    value = c.array("value") if c.optional("value") else c.get("value")
    if (
        not isinstance(value, (int, float, np.ndarray))
        or np.broadcast(given, mask).size > limits.FOLDED_ELEMENTS
    ):
        return None
    return np.where(mask.astype(bool), value, given).astype(given.dtype)


def to_type(c: Call) -> Array | None:
    return typed(c, c.array("self")) if c.get("dtype") in TYPES or c.get("dtype") is None else None


def unchanged(c: Call) -> Array | None:
    return c.array("self")


CONSTANTS: dict[str, Callable[[Call], Array | None]] = {
    "_to_copy": to_type,
    "add": elementwise(np.add),
    "alias": unchanged,
    "arange": arange,
    "bitwise_and": elementwise(np.bitwise_and),
    "bitwise_or": elementwise(np.bitwise_or),
    "clone": unchanged,
    "contiguous": unchanged,
    "detach": unchanged,
    "div": elementwise(np.true_divide),
    "eq": elementwise(np.equal),
    "expand": expand,
    "full": full(None),
    "full_like": like(None),
    "ge": elementwise(np.greater_equal),
    "gt": elementwise(np.greater),
    "le": elementwise(np.less_equal),
    "lift_fresh_copy": unchanged,
    "logical_and": elementwise(np.logical_and),
    "logical_not": lambda c: np.logical_not(c.array("self")),
    "logical_or": elementwise(np.logical_or),
    "lt": elementwise(np.less),
    "masked_fill": masked_fill,
    "mul": elementwise(np.multiply),
    "ne": elementwise(np.not_equal),
    "new_zeros": full(0),
    "ones": full(1),
    "ones_like": like(1),
    "reshape": view,
    "rsub": elementwise(lambda a, b: b - a),
    "select": select,
    "slice": slice_,
    "sub": elementwise(np.subtract),
    "to": to_type,
    "tril": lambda c: np.tril(c.array("self"), int(c.get("diagonal", 0))),
    "triu": lambda c: np.triu(c.array("self"), int(c.get("diagonal", 0))),
    "unsqueeze": lambda c: np.expand_dims(c.array("self"), c.axis(c.get("dim"), c.array("self").ndim + 1)),
    "view": view,
    "where": where,
    "zeros": full(0),
    "zeros_like": like(0),
}
