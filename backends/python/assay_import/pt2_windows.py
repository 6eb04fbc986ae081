"""Convolutions and pools of torch. Assay's have one kernel, stride and padding for both axes."""

from __future__ import annotations

from .calls import require_plain_convolution
from .errors import Missing
from .pt2_call import Call
from .shapes import windows


def two(c: Call, name: str, default: list[int]) -> list[int]:
    found = c.ints(name, default) or default
    return found * 2 if len(found) == 1 else found


def convolution(c: Call) -> None:
    c.floats("input", "weight", "bias")
    weight = c.shape("weight")
    if c.graph.array(c.tensor("weight")) is None:
        raise Missing("convolution: by computed weights")
    if c.target.endswith(".padding"):
        raise Missing(f"convolution: padding '{c.get('padding', 'valid')}' as a word")
    strides, dilations, pads = two(c, "stride", [1]), two(c, "dilation", [1]), two(c, "padding", [0])
    require_plain_convolution(weight, c.get("groups", 1), strides, dilations, pads)
    inputs = [c.tensor("input"), c.tensor("weight"), c.optional("bias")]
    c.result("convolution", *inputs, stride=strides[0], padding=pads[0])


def pool(c: Call, op: str) -> tuple[int, int, int]:
    """Return kernel, stride and padding."""
    c.floats("self")
    kernel = two(c, "kernel_size", [1])
    strides, pads = two(c, "stride", kernel), two(c, "padding", [0])
    features = []
    if len(c.shape()) != 4:
        features.append(f"{len(c.shape())} dimensions")
    if len(set(kernel)) > 1:
        features.append("a kernel that is not square")
    if len(set(strides)) > 1:
        features.append("unequal strides")
    if len(set(pads)) > 1:
        features.append("unequal pads")
    if set(two(c, "dilation", [1])) != {1}:
        features.append("dilated")
    if features:
        raise Missing(f"{op}: {', '.join(features)}")
    if c.get("ceil_mode", False) and any(
        -(-(extent + 2 * pads[0] - kernel[0]) // strides[0]) + 1
        != windows(extent, kernel[0], strides[0], pads[0])
        for extent in c.shape()[2:]
    ):
        raise Missing(f"{op}: ceil mode")
    return kernel[0], strides[0], pads[0]


def max_pool(c: Call) -> None:
    kernel, stride, padding = pool(c, "max_pool")
    c.result("max_pool", c.tensor("self"), kernel=kernel, stride=stride, padding=padding)


def average_pool(c: Call) -> None:
    kernel, stride, padding = pool(c, "average_pool")
    if padding and not c.get("count_include_pad", True):
        raise Missing("average_pool: padding that does not count")
    if c.get("divisor_override") is not None:
        raise Missing("average_pool: another divisor")
    c.result("average_pool", c.tensor("self"), kernel=kernel, stride=stride, padding=padding)


def adaptive(c: Call, op: str, kind: str, out: list[int]) -> None:
    shape = c.shape()
    if out == [1, 1]:
        means = c.step("reduce", c.tensor("self"), kind=kind, axes=[len(shape) - 2, len(shape) - 1])
        c.result("reshape", means, shape=[*shape[:-2], 1, 1])
        return
    steps = {extent // size for extent, size in zip(shape[2:], out, strict=True) if extent % size == 0}
    if len(shape) != 4 or len(steps) != 1 or any(e % s for e, s in zip(shape[2:], out, strict=True)):
        raise Missing(f"{op}: adaptive, to {out[0]} x {out[1]} windows of different sizes")
    step = steps.pop()
    c.result(op, c.tensor("self"), kernel=step, stride=step, padding=0)


def adaptive_average_pool(c: Call) -> None:
    c.floats("self")
    adaptive(c, "average_pool", "mean", two(c, "output_size", [1]))


def adaptive_max_pool(c: Call) -> None:
    c.floats("self")
    adaptive(c, "max_pool", "max", two(c, "output_size", [1]))
