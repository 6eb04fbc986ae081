"""Convolutions and pools of ONNX. Assay's have one kernel, stride and padding for both axes."""

from __future__ import annotations

from collections.abc import Callable

from .calls import require_plain_convolution
from .errors import Missing
from .onnx_call import Call
from .shapes import Shape, windows


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
    weight = c.graph.shape(c.input(1)) or ()
    if c.graph.array(c.input(1)) is None:
        raise Missing("convolution: by computed weights")
    kernel = list(weight[2:])
    axes = len(kernel)
    strides, dilations = listed(c, "strides", axes), listed(c, "dilations", axes)
    pads = pads_of(c, kernel, strides, dilations)
    require_plain_convolution(weight, c.attributes.get("group", 1), strides, dilations, pads)
    inputs = [c.input(0), c.input(1), c.optional(2)]
    c.result("convolution", *inputs, stride=strides[0], padding=pads[0])


def counts(x: Shape, kernel: list[int], strides: list[int], pads: list[int], ceil: bool) -> list[int]:
    """Return how many windows ONNX has along each axis."""
    found = []
    for i, extent in enumerate(x[2:]):
        room = extent + pads[i] + pads[i + len(kernel)] - kernel[i]
        number = (-(-room // strides[i]) if ceil else room // strides[i]) + 1
        if ceil and (number - 1) * strides[i] >= extent + pads[i]:
            number -= 1  # a window that begins after the operand
        found.append(number)
    return found


def pool(c: Call, op: str) -> None:
    kernel = c.numbers("kernel_shape") or []
    axes, shape = len(kernel), c.shape()
    if axes != 2 or len(shape) != 4:
        raise Missing(f"{op}: {axes}-d")
    strides, dilations = listed(c, "strides", axes), listed(c, "dilations", axes)
    pads = pads_of(c, kernel, strides, dilations)
    features = []
    if kernel[0] != kernel[1]:
        features.append("a kernel that is not square")
    if strides[0] != strides[1]:
        features.append("unequal strides")
    if set(dilations) != {1}:
        features.append("dilated")
    if features:
        raise Missing(f"{op}: {', '.join(features)}")
    padding = pads[0]
    ours = [windows(extent, kernel[0], strides[0], padding) for extent in shape[2:]]
    same = (
        pads[0] == pads[1]
        and counts(shape, kernel, strides, pads, bool(c.attributes.get("ceil_mode"))) == ours
    )
    if not same:
        raise Missing(f"{op}: {'ceil mode' if c.attributes.get('ceil_mode') else 'unequal pads'}")
    if padding >= kernel[0]:
        raise Missing(f"{op}: pads as large as the kernel")
    touched = padding > 0 or any(
        (number - 1) * strides[0] + kernel[0] > extent for number, extent in zip(ours, shape[2:], strict=True)
    )
    if op == "average_pool" and touched and (not c.attributes.get("count_include_pad") or len(set(pads)) > 1):
        raise Missing("average_pool: padding that does not count")
    c.result(op, c.input(0), kernel=kernel[0], stride=strides[0], padding=padding)


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
