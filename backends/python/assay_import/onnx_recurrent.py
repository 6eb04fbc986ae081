"""The LSTM of ONNX: its gates are in the order i, o, f, c, it has two biases, and time comes first."""

from __future__ import annotations

import numpy as np

from .errors import Missing
from .onnx_call import Call


def lstm(c: Call) -> None:
    c.floats(0, 1, 2, 3)
    features = []
    if c.text("direction", "forward") != "forward":
        features.append(c.text("direction"))
    if c.attributes.get("activations", [b"Sigmoid", b"Tanh", b"Tanh"]) != [b"Sigmoid", b"Tanh", b"Tanh"]:
        features.append("other activations")
    if c.number("clip", 0) or c.attributes.get("input_forget") or c.optional(7):
        features.append("clipped, coupled or with peepholes")
    if c.attributes.get("layout", 0):
        features.append("layout 1")
    for i in (5, 6):
        start = c.graph.array(c.optional(i))
        if c.optional(i) and (start is None or start.any()):
            features.append("a start that is not zeros")
            break
    if c.optional(4):
        lengths = c.graph.array(c.optional(4))
        if lengths is None or (lengths != c.shape()[0]).any():
            features.append("sequences of different lengths")
    if features:
        raise Missing(f"lstm: {', '.join(features)}")
    weight, recurrent = c.constant(1)[0], c.constant(2)[0]
    units = recurrent.shape[1]
    if weight.shape[0] != 4 * units or recurrent.shape[0] != 4 * units:
        raise Missing(f"lstm: weights of {weight.shape} and {recurrent.shape}")
    both = c.constant(3)[0] if c.optional(3) else np.zeros(8 * units, np.float32)
    parameters = [
        c.hold(name, in_our_order(array), role="parameter")
        for name, array in (
            ("weight", weight),
            ("recurrent_weight", recurrent),
            ("bias", both[: 4 * units] + both[4 * units :]),
        )
    ]
    by_sample = c.step("transpose", c.input(0), permutation=[1, 0, 2])
    every = c.step("lstm", by_sample, *parameters, last=False)
    samples, steps, _ = c.graph.known_shape(every)
    if c.is_read(0):
        by_time = c.step("transpose", every, permutation=[1, 0, 2])
        c.result("reshape", by_time, shape=[steps, 1, samples, units])
    if c.is_read(1):
        last = c.step("lstm", by_sample, *parameters, last=True)
        c.result("reshape", last, out=c.outs[1], shape=[1, samples, units])


def in_our_order(array: np.ndarray) -> np.ndarray:
    i, o, f, g = np.split(array, 4)
    return np.concatenate([i, f, g, o])
