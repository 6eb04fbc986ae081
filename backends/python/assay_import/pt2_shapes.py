"""Ops of torch that move, cut or reduce elements."""

from __future__ import annotations

import math
from collections.abc import Callable

from . import limits
from .errors import Missing
from .pt2_call import Call

Op = Callable[[Call], None]


def reshape(c: Call) -> None:
    key = "size" if "size" in c.arguments else "shape"
    shape = c.with_free_batch(c.shape(), c.ints(key))
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=shape)


def flatten(c: Call) -> None:
    c.floats("self")
    shape = c.shape()
    begin, end = c.axis(c.get("start_dim", 0)), c.axis(c.get("end_dim", -1))
    joined = [*shape[:begin], math.prod(shape[begin : end + 1]), *shape[end + 1 :]]
    c.result("reshape", c.tensor("self"), shape=joined)


def unflatten(c: Call) -> None:
    shape, axis = c.shape(), c.axis(c.get("dim", 0))
    wanted = [*shape[:axis], *c.ints("sizes"), *shape[axis + 1 :]]
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=wanted)


def permute(c: Call) -> None:
    c.floats("self")
    c.result("transpose", c.tensor("self"), permutation=[c.axis(axis) for axis in c.ints("dims")])


def transpose(c: Call) -> None:
    c.floats("self")
    order = list(range(len(c.shape())))
    a, b = (c.axis(c.get(name, i)) for i, name in enumerate(("dim0", "dim1")))
    order[a], order[b] = order[b], order[a]
    c.result("transpose", c.tensor("self"), permutation=order)


def squeeze(c: Call) -> None:
    c.floats("self")
    shape = c.shape()
    axes = {c.axis(axis) for axis in c.ints("dim")} if c.get("dim") is not None else set(range(1, len(shape)))
    kept = [extent for i, extent in enumerate(shape) if not (i in axes and extent == 1)]
    c.result("reshape", c.tensor("self"), shape=kept)


def unsqueeze(c: Call) -> None:
    shape = list(c.shape())
    shape.insert(c.axis(c.get("dim"), len(shape) + 1), 1)
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=shape)


def expand(c: Call) -> None:
    shape, size = c.shape(), c.ints("size")
    new = len(size) - len(shape)
    kept = [shape[i - new] if extent == -1 and i >= new else extent for i, extent in enumerate(size)]
    if tuple(kept) == shape:
        c.same(c.tensor("self"))
    else:
        c.result("expand", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=kept)


def unchanged(c: Call) -> None:
    c.same(c.tensor("self"))


SCALARS = {4: "int", 5: "int", 7: "f32", 12: "bool"}  # of the file's numbers of types


def to_type(c: Call) -> None:
    name = c.graph.dtype(c.tensor("self"))
    to = name if c.get("dtype") is None else SCALARS.get(c.get("dtype"))
    if to is None:
        raise Missing(f"{c.target}: from {name} to another type")
    if to == name:
        c.same(c.tensor("self"))
    else:
        c.result("cast", c.tensor("self"), dtype=to)


def concat(c: Call) -> None:
    names = [ref.name for ref in c.get("tensors", [])]
    if any(c.graph.dtype(name) != "f32" for name in names) or not names:
        raise Missing(f"{c.target}: of values that are not floats")
    rank = len(c.graph.known_shape(names[0]))
    c.result("concat", *names, axis=c.axis(c.get("dim", 0), rank))


def slice_(c: Call) -> None:
    c.floats("self")
    axis, shape = c.axis(c.get("dim", 0)), c.shape()
    if c.get("step", 1) != 1:
        raise Missing(f"slice: a step of {c.get('step')}")
    begin, end, _ = slice(c.get("start", 0), c.get("end")).indices(shape[axis])
    piece(c, c.out, axis, begin, end)


def narrow(c: Call) -> None:
    c.floats("self")
    axis = c.axis(c.get("dim", 0))
    begin, length = c.get("start", 0), c.get("length")
    extent = c.shape()[axis]
    if (
        not isinstance(begin, int)
        or not isinstance(length, int)
        or not 0 <= begin <= begin + length <= extent
    ):
        raise Missing(f"{c.target}: {length} from {begin}")
    piece(c, c.out, axis, begin, begin + length)


def piece(c: Call, out: str, axis: int, begin: int, end: int) -> None:
    if (begin, end) == (0, c.shape()[axis]):
        c.same(c.tensor("self"), out)
    else:
        c.result("slice", c.tensor("self"), out=out, axis=axis, begin=begin, end=end)


def select(c: Call) -> None:
    c.floats("self")
    shape, axis, index = list(c.shape()), c.axis(c.get("dim", 0)), c.get("index")
    if not isinstance(index, int) or not -shape[axis] <= index < shape[axis]:
        raise Missing(f"{c.target}: index {index}")
    index %= shape[axis]
    row = c.step("slice", c.tensor("self"), axis=axis, begin=index, end=index + 1)
    c.result("reshape", row, shape=[*shape[:axis], *shape[axis + 1 :]])


def split(sizes_of: Callable[[Call, int], list[int]]) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        axis = c.axis(c.get("dim", 0))
        extent = c.shape()[axis]
        sizes, begin = sizes_of(c, extent), 0
        if sum(sizes) != extent or len(sizes) != len(c.outs) or len(sizes) > limits.STEPS:
            raise Missing(f"{c.target}: of {extent} into {len(sizes)} parts")
        for out, size in zip(c.outs, sizes, strict=True):
            piece(c, out, axis, begin, begin + size)
            begin += size

    return read


def equal_parts(c: Call, extent: int) -> list[int]:
    count = max(int(c.number("chunks", 1)), 1)
    return parts_of(extent, -(-extent // count))


def parts_of(extent: int, size: int) -> list[int]:
    if size < 1 or extent // size > limits.STEPS:
        return []
    return [min(size, extent - begin) for begin in range(0, extent, size)]


def parts_of_size(c: Call, extent: int) -> list[int]:
    given = c.ints("split_size") if "split_size" in c.arguments else c.ints("split_sizes")
    return given if isinstance(c.get("split_size"), list) else parts_of(extent, given[0] if given else 0)


def reduce(kind: str) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        shape = c.shape()
        given = c.ints("dim")
        axes = sorted({c.axis(axis) for axis in given}) if given else list(range(len(shape)))
        if not c.get("keepdim", False):
            c.result("reduce", c.tensor("self"), kind=kind, axes=axes)
            return
        kept = [1 if i in axes else extent for i, extent in enumerate(shape)]
        c.result("reshape", c.step("reduce", c.tensor("self"), kind=kind, axes=axes), shape=kept)

    return read
