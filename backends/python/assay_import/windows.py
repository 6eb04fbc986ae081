"""Convolutions and pools of both formats: their groups, gaps and sides, and a ceil mode as more padding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .calls import FileCall, over_images
from .errors import Missing
from .graph import Graph
from .shapes import Shape


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
        weight = row_of(c.graph, weight)
        strides, dilations, pads = strides * 2, dilations * 2, [0, pads[0], 0, pads[1]]
    attributes: dict[str, Any] = {"stride": joined(strides), "padding": joined(pads)}
    if set(dilations) != {1}:
        attributes["dilation"] = joined(dilations)
    if groups != 1:
        attributes["groups"] = groups
    over_images(c, "convolution", x, weight, bias, **attributes)


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
    over_images(c, op, x, **attributes)


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
