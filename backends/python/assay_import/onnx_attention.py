"""The Attention of ONNX: heads before positions, or in the last dimension."""

from __future__ import annotations

import math

import numpy as np

from .errors import Missing
from .onnx_call import Call


def attention(c: Call) -> None:
    c.floats(0, 1, 2)
    if any(c.optional(i) for i in (4, 5, 6)) or any(c.is_read(i) for i in (1, 2, 3)):
        raise Missing("attention: with a cache")
    if c.number("softcap", 0) or c.attributes.get("softmax_precision", 1) != 1:
        raise Missing("attention: capped scores, or another precision")
    heads = (int(c.attributes.get("q_num_heads", 0)), *[int(c.attributes.get("kv_num_heads", 0))] * 2)
    q, k, v = (by_position(c, i, heads[i]) for i in range(3))
    queries, keys = c.graph.known_shape(q), c.graph.known_shape(k)
    causal = bool(c.attributes.get("is_causal", 0))
    if causal and queries[1] != keys[1]:
        raise Missing("attention: causal with other keys than queries")
    y = c.step("attention", q, k, v, mask_of(c), causal=causal, scale=known_scale(c, queries[3]))
    if len(c.shape()) == 4:
        c.result("transpose", y, permutation=[0, 2, 1, 3])
    else:
        c.result("reshape", y, shape=[*c.shape()[:2], queries[2] * queries[3]])


def known_scale(c: Call, width: int) -> float:
    scale = c.number("scale", 0.0)
    return 0.0 if abs(scale * math.sqrt(width) - 1) < 1e-6 else scale


def by_position(c: Call, i: int, heads: int) -> str:
    """Return (N, T, H, D) of (N, H, T, D) or (N, T, H D)."""
    shape = c.shape(i)
    if len(shape) == 4:
        return c.step("transpose", c.input(i), permutation=[0, 2, 1, 3])
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise Missing(f"attention: {len(shape)} dimensions")
    return c.step("reshape", c.input(i), shape=[*shape[:2], heads, shape[2] // heads])


def mask_of(c: Call) -> str | None:
    name = c.optional(3)
    if name is None:
        return None
    if c.graph.dtype(name) == "bool":
        allowed = c.graph.array(name)
        if allowed is None:
            shown, low = (
                c.hold(part, np.array(value, np.float32)) for part, value in (("shown", 0), ("low", -1e38))
            )
            return c.step("where", name, shown, low)
        if not allowed.any(axis=-1).all():
            raise Missing("attention: a query that sees no key")
        hidden = np.where(allowed, np.float32(0), np.float32(-1e38))
        return c.hold("mask", np.broadcast_to(hidden, (1,) * (4 - hidden.ndim) + hidden.shape))
    shape = c.graph.known_shape(name)
    if len(shape) < 4:
        return c.step("reshape", name, shape=[1] * (4 - len(shape)) + list(shape))
    return name
