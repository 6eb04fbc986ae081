"""The LSTM of torch: its gates are in Assay's order, and its two biases are added."""

from __future__ import annotations

import numpy as np

from .errors import Missing
from .graph import Constant
from .pt2_call import Call, Ref


def lstm(c: Call) -> None:
    features = []
    if c.get("bidirectional", False):
        features.append("bidirectional")
    if any(start is None or start.any() for start in (c.graph.array(ref.name) for ref in c.get("hx", []))):
        features.append("a start that is not zeros")
    layers, biases = int(c.number("num_layers", 1)), bool(c.get("has_biases", True))
    given = [ref.name for ref in c.get("params", []) if isinstance(ref, Ref)]
    count = 4 if biases else 2
    if len(given) != count * layers:
        features.append("projected")
    if any(name not in c.graph.constants for name in given):
        features.append("computed weights")
    if features:
        raise Missing(f"lstm: {', '.join(features)}")
    by_sample = bool(c.get("batch_first", False))
    x = c.tensor("input")
    x = x if by_sample else c.step("transpose", x, permutation=[1, 0, 2])
    rate = c.number("dropout", 0)
    for layer in range(layers):
        weight, recurrent, *vectors = given[layer * count : (layer + 1) * count]
        x = c.step("lstm", x, weight, recurrent, bias_of(c, recurrent, vectors), last=False)
        if rate and layer < layers - 1:
            x = c.step("dropout", x, rate=rate)
    if by_sample:
        c.same(x)
    else:
        c.result("transpose", x, permutation=[1, 0, 2])
    for i, out in enumerate(c.outs[1:], 1):
        if i == 1 and layers == 1:
            node = c.graph.nodes[x]
            last = c.step("lstm", *node.inputs, last=True)
            samples, units = c.graph.known_shape(last)
            c.result("reshape", last, out=out, shape=[1, samples, units])


def bias_of(c: Call, recurrent: str, vectors: list[str]) -> str:
    if not vectors:
        rows = c.graph.known_shape(recurrent)[0]
        return c.hold("bias", np.zeros(rows, np.float32), role="constant")
    first, second = (c.graph.constants[name] for name in vectors)
    name = vectors[0].replace("bias_ih", "bias")
    held = c.graph.constants.get(name)
    if held is not None and held is not first:
        return name
    return c.graph.hold(name, Constant(first.array + second.array, first.role))
