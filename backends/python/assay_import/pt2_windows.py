"""Convolutions and pools of torch."""

from __future__ import annotations

from collections.abc import Callable

from .errors import Missing
from .pt2_call import Call
from .shapes import Shape
from .windows import Window, add_convolution, add_pool


def two(c: Call, name: str, default: list[int], axes: int = 2) -> list[int]:
    found = c.ints(name, default) or default
    return found * axes if len(found) == 1 else found


def same_pads(kernel: Shape, dilations: list[int]) -> list[int]:
    """Return the paddings of the word "same": an odd one is at the end."""
    totals = [dilation * (size - 1) for dilation, size in zip(dilations, kernel, strict=True)]
    return [total // 2 for total in totals] + [total - total // 2 for total in totals]


def convolution(c: Call) -> None:
    c.floats("input", "weight", "bias")
    kernel = c.shape("weight")[2:]
    if c.graph.array(c.tensor("weight")) is None:
        raise Missing("convolution: by computed weights")
    axes = len(kernel)
    strides, dilations = two(c, "stride", [1], axes), two(c, "dilation", [1], axes)
    if not c.target.endswith(".padding"):
        pads = two(c, "padding", [0], axes) * 2
    elif c.get("padding", "valid") == "same":
        pads = same_pads(kernel, dilations)
    else:
        pads = [0] * 2 * axes
    operands = c.tensor("input"), c.tensor("weight"), c.optional("bias")
    add_convolution(c, operands, c.get("groups", 1), strides, dilations, pads)


def pool(c: Call, op: str, axes: int, counts: bool = True) -> None:
    c.floats("self")
    if len(c.shape()) != axes + 2:
        raise Missing(f"{op}: {len(c.shape())} dimensions")
    kernel = two(c, "kernel_size", [1], axes)
    if set(two(c, "dilation", [1], axes)) != {1}:
        raise Missing(f"{op}: dilated")
    strides, pads = two(c, "stride", kernel, axes), two(c, "padding", [0], axes) * 2
    add_pool(c, op, c.tensor("self"), Window(kernel, strides, pads, bool(c.get("ceil_mode", False)), counts))


def max_pool(axes: int) -> Callable[[Call], None]:
    return lambda c: pool(c, "max_pool", axes)


def average_pool(axes: int) -> Callable[[Call], None]:
    def read(c: Call) -> None:
        if c.get("divisor_override") is not None:
            raise Missing("average_pool: another divisor")
        pool(c, "average_pool", axes, bool(c.get("count_include_pad", True)))

    return read


def adaptive(op: str, kind: str, axes: int) -> Callable[[Call], None]:
    """A pool by the size of its result; with one window for each axis it is a reduction."""

    def read(c: Call) -> None:
        c.floats("self")
        shape, out = c.shape(), two(c, "output_size", [1], axes)
        extents = shape[len(shape) - axes :]
        if set(out) == {1}:
            places = list(range(len(shape) - axes, len(shape)))
            reduced = c.step("reduce", c.tensor("self"), kind=kind, axes=places)
            c.result("reshape", reduced, shape=[*shape[:-axes], *out])
            return
        if any(size < 1 or extent % size for extent, size in zip(extents, out, strict=True)):
            raise Missing(f"{op}: adaptive, to {' x '.join(map(str, out))} windows of different sizes")
        steps = [extent // size for extent, size in zip(extents, out, strict=True)]
        add_pool(c, op, c.tensor("self"), Window(steps, steps, [0] * 2 * axes))

    return read
