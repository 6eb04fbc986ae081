"""Ops of ONNX that move, cut or reduce elements."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import limits
from .errors import Missing
from .onnx_call import Call, Cuts
from .shapes import broadcast

Op = Callable[[Call], None]


def reshape(c: Call) -> None:
    wanted = c.numbers("shape", 1)
    if wanted is None:
        raise Missing("Reshape: without a shape")
    shape = c.shape()
    if not c.attributes.get("allowzero"):
        wanted = [shape[i] if extent == 0 and i < len(shape) else extent for i, extent in enumerate(wanted)]
    c.result("reshape", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=c.with_free_batch(shape, wanted))


def to_shape(new: Callable[[Call], list[int]]) -> Op:
    def read(c: Call) -> None:
        c.result("reshape", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=new(c))

    return read


def flattened(c: Call) -> list[int]:
    axis, shape = int(c.attributes.get("axis", 1)), c.shape()
    axis = axis + len(shape) if axis < 0 else axis
    return [math.prod(shape[:axis]), math.prod(shape[axis:])]


def squeezed(c: Call) -> list[int]:
    shape, axes = c.shape(), c.numbers("axes", 1)
    if axes is None:
        # The batch stays even if it is one sample.
        return [extent for i, extent in enumerate(shape) if extent != 1 or i == 0]
    gone = {c.axis(axis) for axis in axes}
    if any(shape[axis] != 1 for axis in gone):
        raise Missing(f"Squeeze: an extent that is not 1 of {shape}")
    return [extent for i, extent in enumerate(shape) if i not in gone]


def unsqueezed(c: Call) -> list[int]:
    shape, axes = list(c.shape()), c.numbers("axes", 1) or []
    rank = len(shape) + len(axes)
    new = {c.axis(axis, rank) for axis in axes}
    rest = iter(shape)
    return [1 if i in new else next(rest) for i in range(rank)]


def transpose(c: Call) -> None:
    c.floats()
    order = c.numbers("perm") or list(range(len(c.shape())))[::-1]
    c.result("transpose", c.input(0), permutation=order)


def expand(c: Call) -> None:
    shape = broadcast([c.shape(), tuple(c.numbers("", 1) or [])])
    if shape == c.shape():
        c.same(c.input(0))
    else:
        c.result("expand", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=list(shape))


def concat(c: Call) -> None:
    c.floats()
    if len(c.inputs) == 1:
        c.same(c.input(0))
        return
    axis = c.axis(int(c.attributes.get("axis", 1)))
    for i, name in enumerate(c.inputs):
        held = c.graph.constants.get(name) if name else None
        if held is not None and not held.original and axis > 0 and c.shape(i)[0] == c.batch:
            raise Missing("concat: with a constant for each sample, such as a class token")
    c.result("concat", *c.inputs, axis=axis)


def slice_(c: Call) -> None:
    c.floats(0)
    starts, ends = c.numbers("starts", 1) or [], c.numbers("ends", 2) or []
    axes = c.numbers("axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = c.numbers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Missing("Slice: lists of different lengths")
    x, shape, parts = c.input(0), c.shape(), []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step != 1:
            raise Missing(f"slice: a step of {step}")
        axis = c.axis(axis)
        begin, end, _ = slice(start, end).indices(shape[axis])
        if (begin, end) != (0, shape[axis]):
            parts.append((axis, begin, end))
    pieces(c, x, parts)


def pieces(c: Call, x: str, parts: Cuts, out: str = "") -> None:
    """Cut a value along several axes, one after the other."""
    for axis, begin, end in parts[:-1]:
        x = c.step("slice", x, axis=axis, begin=begin, end=end)
    for axis, begin, end in parts[-1:]:
        c.result("slice", x, out=out, axis=axis, begin=begin, end=end)
    if not parts:
        c.same(x, out)


def parts_of(c: Call, sizes: list[int]) -> list[Cuts]:
    """Return the pieces of these sizes along the axis of a split."""
    axis = c.axis(int(c.attributes.get("axis", 0)))
    extent, begin, found = c.shape()[axis], 0, []
    if sum(sizes) != extent or min(sizes, default=0) < 1 or len(sizes) > limits.STEPS:
        raise Missing(f"{c.source.op}: of {extent} into {len(sizes)} parts")
    for size in sizes:
        found.append([(axis, begin, begin + size)] if size != extent else [])
        begin += size
    return found


def split(c: Call) -> None:
    c.floats(0)
    extent, count = c.shape()[c.axis(int(c.attributes.get("axis", 0)))], len(c.outs)
    sizes = c.numbers("split", 1)
    if sizes is None:
        size = -(-extent // count)
        sizes = [min(size, extent - i * size) for i in range(count)]
    if len(sizes) != count:
        raise Missing(f"Split: of {extent} into {len(sizes)} parts")
    for name, parts in zip(c.outs, parts_of(c, sizes), strict=True):
        if name:
            pieces(c, c.input(0), parts, name)


def split_to_sequence(c: Call) -> None:
    """Keep the parts for SequenceAt. As a whole, a sequence is nothing that a network has."""
    c.floats(0)
    extent = c.shape()[c.axis(int(c.attributes.get("axis", 0)))]
    given = c.constant(1) if c.optional(1) else np.array(1)
    if not c.optional(1) and not c.attributes.get("keepdims", 1):
        raise Missing("SplitToSequence: without the dimension")
    sizes = [int(size) for size in given.reshape(-1)]
    if given.ndim == 0:
        size = max(sizes[0], 1)
        sizes = [min(size, extent - begin) for begin in range(0, extent, size)][: limits.STEPS + 1]
    c.state.sequences[c.out] = (c.input(0), parts_of(c, sizes))


def sequence_at(c: Call) -> None:
    value, parts = c.state.sequences.get(c.input(0), ("", []))
    i = int(c.constant(1).reshape(-1)[0])
    if not -len(parts) <= i < len(parts):
        raise Missing("SequenceAt: of another sequence than that of SplitToSequence")
    pieces(c, value, parts[i])


def gather(c: Call) -> None:
    axis = c.axis(int(c.attributes.get("axis", 0)))
    if axis == 0 and len(c.shape()) == 2 and c.graph.dtype(c.input(1)) == "int":
        c.floats(0)
        if c.graph.array(c.input(0)) is not None:
            c.result("embedding", c.input(1), c.input(0))
            return
    c.floats(0)
    indices = c.graph.array(c.input(1))
    if indices is None:
        raise Missing("gather: by computed indices")
    flat = [int(i) for i in indices.reshape(-1)]
    extent = c.shape()[axis]
    flat = [i + extent if i < 0 else i for i in flat]
    if not flat or flat != list(range(flat[0], flat[0] + len(flat))) or not 0 <= flat[0] <= flat[-1] < extent:
        raise Missing("gather: rows that do not follow each other")
    if indices.ndim == 1:
        pieces(c, c.input(0), [(axis, flat[0], flat[-1] + 1)] if len(flat) != extent else [])
        return
    x = c.input(0)
    if len(flat) != extent:
        x = c.step("slice", x, axis=axis, begin=flat[0], end=flat[-1] + 1)
    shape = list(c.shape())
    c.result("reshape", x, shape=[*shape[:axis], *indices.shape, *shape[axis + 1 :]])


def reduce(kind: str) -> Op:
    def read(c: Call) -> None:
        c.floats(0)
        shape, given = c.shape(), c.numbers("axes", 1)
        if not given and c.attributes.get("noop_with_empty_axes"):
            c.same(c.input(0))
            return
        axes = sorted({c.axis(axis) for axis in given}) if given else list(range(len(shape)))
        if not c.attributes.get("keepdims", 1):
            c.result("reduce", c.input(0), kind=kind, axes=axes)
            return
        kept = [1 if i in axes else extent for i, extent in enumerate(shape)]
        c.result("reshape", c.step("reduce", c.input(0), kind=kind, axes=axes), shape=kept)

    return read
