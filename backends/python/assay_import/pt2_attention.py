"""scaled_dot_product_attention of torch."""

from __future__ import annotations

import math

import numpy as np

from .errors import Missing
from .pt2_call import Call


def attention(c: Call) -> None:
    c.floats("query", "key", "value")
    if c.number("dropout_p", 0):
        raise Missing("attention: with dropout of its weights (export the module in eval mode)")
    q, k = c.shape("query"), c.shape("key")
    if len(q) != 4 or len(k) != 4:
        raise Missing(f"attention: {len(q)} dimensions")
    causal = bool(c.get("is_causal", False))
    if causal and q[2] != k[2]:
        raise Missing("attention: causal with other keys than queries")
    if q[1] != k[1] and not c.get("enable_gqa", False):
        raise Missing("attention: heads that are broadcast")
    scale = c.number("scale", 0.0)
    scale = 0.0 if abs(scale * math.sqrt(q[3]) - 1) < 1e-6 else scale
    operands = [
        c.step("transpose", c.tensor(name), permutation=[0, 2, 1, 3]) for name in ("query", "key", "value")
    ]
    y = c.step("attention", *operands, attention_mask(c), causal=causal, scale=scale)
    c.result("transpose", y, permutation=[0, 2, 1, 3])


def attention_mask(c: Call) -> str | None:
    name = c.optional("attn_mask")
    if name is None:
        return None
    array = c.graph.array(name)
    if array is None:
        if len(c.graph.known_shape(name)) != 4:
            raise Missing("attention: a mask that is computed from the input, without four dimensions")
        if c.graph.dtype(name) == "bool":
            shown, low = (
                c.hold(part, np.array(value, np.float32)) for part, value in (("shown", 0), ("low", -1e38))
            )
            return c.step("where", name, shown, low)
        return name
    if array.shape[:1] == (c.batch,) and (array == array[:1]).all():
        array = array[:1]
    if array.dtype == bool:
        array = np.where(array, np.float32(0), np.float32(-np.inf))
    if not (array > -1e9).any(axis=-1).all():
        raise Missing("attention: a query that sees no key")
    whole = np.maximum(array, np.float32(-1e38)).reshape((1,) * (4 - array.ndim) + array.shape)
    return c.hold("mask", whole)
