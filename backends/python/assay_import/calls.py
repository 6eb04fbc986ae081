"""What the readers of both formats share: the facts about a file, and a node that becomes ops of Assay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Missing
from .graph import Constant, Graph, Source
from .options import Options
from .shapes import Shape


@dataclass
class FileState:
    """Facts about the file that the reader collects."""

    graph: Graph
    options: Options
    file_batch: int = 0  # that of the file's input; 0: none
    renamed: dict[str, str] = field(default_factory=dict)  # values that are other values
    freed: set[str] = field(default_factory=set)  # nodes in which the file's batch became a free one


class FileCall:
    """A node of a file. `out` is the name of the first result."""

    def __init__(self, state: FileState, source: Source, outs: list[str]) -> None:
        self.state, self.source, self.outs = state, source, outs
        self.graph, self.batch = state.graph, state.graph.batch
        self.out = outs[0] if outs else ""

    def result(
        self, op: str, *inputs: str | None, out: str = "", dtype: str = "f32", **attributes: Any
    ) -> None:
        """Add the node that makes the first result, or the one named."""
        self.graph.add(op, inputs, out or self.out, self.source, dtype, **attributes)

    def step(self, op: str, *inputs: str | None, **attributes: Any) -> str:
        """Add a node before that, named after it and its op; return its result."""
        return self.graph.add(op, inputs, self.graph.fresh(f"{self.out}.{op}"), self.source, **attributes)

    def same(self, name: str, out: str = "") -> None:
        """Let a result be another value."""
        self.state.renamed[out or self.out] = name

    def hold(self, suffix: str, array: np.ndarray, **more: Any) -> str:
        """Add a constant of ours."""
        return self.graph.hold(f"{self.out}.{suffix}", Constant(array, **more))

    def with_free_batch(self, shape: Shape, wanted: list[int]) -> list[int]:
        """Return the extents of a reshape of `shape`.

        If the file's own batch is in them, it becomes the present one, or they are refused.
        """
        own = self.state.file_batch
        is_baked = (
            own not in (0, self.batch)
            and shape[:1] == (self.batch,)
            and wanted[:1] == [own]
            and (-1 in wanted[1:] or math.prod(wanted) * self.batch == math.prod(shape) * own)
        )
        if not is_baked:
            return wanted
        if not self.state.options.free_batch:
            raise Missing(f"reshape: a batch of {own} is written in it (--free-batch replaces it)")
        self.state.freed.add(self.source.name)
        return [self.batch, *wanted[1:]]

    def as_rows(self, x: str) -> str:
        """Return sequences (N, C, L) as images of one row."""
        samples, channels, length = self.graph.known_shape(x)
        return self.step("reshape", x, shape=[samples, channels, 1, length])

    def from_rows(self, images: str) -> None:
        """Let the first result be images of one row as sequences."""
        samples, channels, _, length = self.graph.known_shape(images)
        self.result("reshape", images, shape=[samples, channels, length])


def joined(numbers: list[int]) -> int | list[int]:
    """Write equal numbers as one, which is their only spelling."""
    return numbers[0] if len(set(numbers)) == 1 else numbers


def row_of(graph: Graph, weight: str) -> str:
    """Return a weight (O, I, K) as one of images of one row: the same for each of its readers."""
    held = graph.constants[weight]
    row = held.array[:, :, np.newaxis]
    known = graph.constants.get(f"{weight}.row")
    if known is not None and known.array.shape == row.shape and np.may_share_memory(known.array, row):
        return f"{weight}.row"
    return graph.derive(weight, ".row", row, original=held.original)


def add_convolution(
    c: FileCall,
    operands: tuple[str, str, str | None],
    groups: Any,
    strides: list[int],
    dilations: list[int],
    pads: list[int],
) -> None:
    """Add a convolution over two axes, or over one as one over images of one row.

    The operands are the image, the weight and the bias. The pads are those before each axis, then those
    after each.
    """
    x, weight, bias = operands
    shape, axes = c.graph.known_shape(weight), len(strides)
    if axes not in (1, 2) or len(shape) != axes + 2 or len(c.graph.known_shape(x)) != axes + 2:
        raise Missing(f"convolution: {axes}-d")
    if not isinstance(groups, int) or groups < 1:
        raise Missing(f"convolution: {groups} groups")
    extents = [dilation * (size - 1) + 1 for dilation, size in zip(dilations, shape[2:], strict=True)]
    if any(pad >= extent for pad, extent in zip(pads, extents * 2, strict=True)):
        raise Missing("convolution: pads as large as the kernel")
    if axes == 1:
        x, weight = c.as_rows(x), row_of(c.graph, weight)
        strides, dilations, pads = strides * 2, dilations * 2, [0, pads[0], 0, pads[1]]
    attributes: dict[str, Any] = {"stride": joined(strides), "padding": joined(pads)}
    if set(dilations) != {1}:
        attributes["dilation"] = joined(dilations)
    if groups != 1:
        attributes["groups"] = groups
    if axes == 2:
        c.result("convolution", x, weight, bias, **attributes)
    else:
        c.from_rows(c.step("convolution", x, weight, bias, **attributes))


def add_batch_norm(c: FileCall, operands: Sequence[str | None], **attributes: Any) -> None:
    """Add a batch norm over images, or over sequences as one over images of one row."""
    x = str(operands[0])
    if len(c.graph.known_shape(x)) == 4:
        c.result("batch_norm", *operands, **attributes)
    else:
        c.from_rows(c.step("batch_norm", c.as_rows(x), *operands[1:], **attributes))


@dataclass(frozen=True)
class Window:
    """A window over one or two axes. `pads` are those before each axis, then those after each."""

    kernel: list[int]
    strides: list[int]
    pads: list[int]
    ceil: bool = False  # a last window that is not full is kept
    counts: bool = True  # the padding is in the divisor of an average, but not what `ceil` adds


def add_pool(c: FileCall, op: str, x: str, window: Window) -> None:
    """Add a pool over two axes, or over one as one over images of one row."""
    kernel, strides, axes = window.kernel, window.strides, len(window.kernel)
    shape = c.graph.known_shape(x)
    if axes not in (1, 2) or len(shape) != axes + 2:
        raise Missing(f"{op}: {axes}-d")
    pads = with_ceil(shape[2:], window) if window.ceil else list(window.pads)
    if any(pad >= size for pad, size in zip(pads, kernel * 2, strict=True)):
        raise Missing(f"{op}: pads as large as the kernel")
    attributes: dict[str, Any] = {}
    if op == "average_pool" and crosses(shape[2:], kernel, strides, pads):
        if window.counts and pads != window.pads and any(window.pads):
            raise Missing("average_pool: ceil mode with padding that counts")
        if not window.counts or pads != window.pads:
            attributes["count_padding"] = False
    if axes == 1:
        kernel, strides, pads = [1, *kernel], strides * 2, [0, pads[0], 0, pads[1]]
    attributes |= {"kernel": joined(kernel), "stride": joined(strides), "padding": joined(pads)}
    if axes == 2:
        c.result(op, x, **attributes)
    else:
        c.from_rows(c.step(op, c.as_rows(x), **attributes))


def with_ceil(extents: Shape, window: Window) -> list[int]:
    """Return the paddings with which the last window is full, unless it begins after the operand."""
    before, after = window.pads[: len(extents)], window.pads[len(extents) :]
    for i, (extent, size, step) in enumerate(zip(extents, window.kernel, window.strides, strict=True)):
        count = -(-(extent + before[i] + after[i] - size) // step) + 1
        if (count - 1) * step >= extent + before[i]:
            count -= 1
        after[i] = max(after[i], (count - 1) * step + size - extent - before[i])
    return before + after


def crosses(extents: Shape, kernel: list[int], strides: list[int], pads: list[int]) -> bool:
    """Whether a window has elements that are not of the operand."""
    for i, extent in enumerate(extents):
        last = (extent + pads[i] + pads[i + len(extents)] - kernel[i]) // strides[i] * strides[i] - pads[i]
        if pads[i] > 0 or last + kernel[i] > extent:
            return True
    return False


def add_prelu(c: FileCall, x: str, slope: str) -> None:
    """Add relu(x) + slope * (x - relu(x)): where x is positive the second term is 0, elsewhere the first."""
    positive = c.step("relu", x)
    negative = c.step("subtract", x, positive)
    c.result("add", positive, c.step("multiply", negative, slope))
