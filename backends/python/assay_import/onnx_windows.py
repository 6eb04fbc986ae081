"""Convolutions and pools of ONNX."""

from __future__ import annotations

from collections.abc import Callable

from .errors import Missing
from .onnx_call import Call
from .windows import Window, add_convolution, add_pool


def pads_of(c: Call, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Return the paddings before each axis, then those after each."""
    kind, count = c.text("auto_pad", "NOTSET"), len(kernel)
    if kind in ("NOTSET", ""):
        pads = c.numbers("pads") or [0] * 2 * count
        if len(pads) != 2 * count or min(pads) < 0:
            raise Missing(f"{c.source.op}: pads {pads}")
        return pads
    if kind == "VALID":
        return [0] * 2 * count
    before, after = [], []
    for extent, k, stride, dilation in zip(c.shape()[2:], kernel, strides, dilations, strict=True):
        total = max((-(-extent // stride) - 1) * stride + dilation * (k - 1) + 1 - extent, 0)
        small, large = total // 2, total - total // 2
        before.append(small if kind == "SAME_UPPER" else large)
        after.append(large if kind == "SAME_UPPER" else small)
    return before + after


def listed(c: Call, name: str, count: int) -> list[int]:
    found = c.numbers(name) or [1] * count
    if len(found) != count or min(found) < 1:
        raise Missing(f"{c.source.op}: {name} {found}")
    return found


def convolution(c: Call) -> None:
    c.floats()
    if c.graph.array(c.input(1)) is None:
        raise Missing("convolution: by computed weights")
    kernel = list(c.shape(1)[2:])
    axes = len(kernel)
    strides, dilations = listed(c, "strides", axes), listed(c, "dilations", axes)
    pads = pads_of(c, kernel, strides, dilations)
    operands = c.input(0), c.input(1), c.optional(2)
    add_convolution(c, operands, c.attributes.get("group", 1), strides, dilations, pads)


def pool(c: Call, op: str) -> None:
    kernel = c.numbers("kernel_shape") or []
    axes = len(kernel)
    if axes == 0 or len(c.shape()) != axes + 2:
        raise Missing(f"{op}: {axes}-d")
    strides, dilations = listed(c, "strides", axes), listed(c, "dilations", axes)
    if set(dilations) != {1}:
        raise Missing(f"{op}: dilated")
    pads = pads_of(c, kernel, strides, dilations)
    ceil, counts = bool(c.attributes.get("ceil_mode")), bool(c.attributes.get("count_include_pad"))
    add_pool(c, op, c.input(0), Window(kernel, strides, pads, ceil, counts))


def max_pool(c: Call) -> None:
    c.floats()
    pool(c, "max_pool")


def average_pool(c: Call) -> None:
    c.floats()
    pool(c, "average_pool")


def global_pool(kind: str) -> Callable[[Call], None]:
    def read(c: Call) -> None:
        c.floats()
        shape = c.shape()
        axes = list(range(2, len(shape)))
        c.result(
            "reshape",
            c.step("reduce", c.input(0), kind=kind, axes=axes),
            shape=[*shape[:2], *[1] * len(axes)],
        )

    return read
