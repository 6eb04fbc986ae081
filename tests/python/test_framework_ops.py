"""The single ops of each framework's adapter, forwards and backwards, against what the contract says."""

from __future__ import annotations

import fcntl
import json
import math
import os
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import Tensors, read_tensors, write_tensors
from framework import EACH, SHARED, Framework
from network_interpreter import average_pool, convolution, local_response_norm, max_pool, mean_pool, prelu
from op_lists import ops_of
from worker_under_test import ROOT, exam_subject

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Case:
    """One op on operands, and its contract in float64."""

    op: str
    operands: dict[str, Array]
    attributes: dict[str, Any]
    contract: Callable[..., Array]
    whole: dict[str, Array] = field(default_factory=dict)  # operands without a gradient, after the others

    @property
    def name(self) -> str:
        return f"{self.op}-{'-'.join(str(value) for value in self.attributes.values())}".replace(" ", "")


def x(*shape: int) -> Array:
    """Return numbers in (-2, 2), all different if there are fewer than 64."""
    return ((np.arange(np.prod(shape, dtype=int)).reshape(shape) * 37 % 64 - 31.5) / 16).astype("f4")


def drawn(*shape: int) -> Array:
    """Return numbers without a period, for operands that cross blocks."""
    return np.random.default_rng(5).normal(size=shape).astype("f4")


def sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def softmax(a: Array) -> Array:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def turned(a: Array, transpose: bool) -> Array:
    return a.swapaxes(-1, -2) if transpose else a


def lstm(a: Array, weight: Array, recurrent_weight: Array, bias: Array, *, last: bool) -> Array:
    h = c = np.zeros((a.shape[0], recurrent_weight.shape[1]))
    every = []
    for step in a.swapaxes(0, 1):
        i, f, g, o = np.split(step @ weight.T + h @ recurrent_weight.T + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        every.append(h)
    return h if last else np.stack(every, 1)


def normalise(a: Array, *, axes: list[int], epsilon: float) -> Array:
    return a / np.maximum(np.sqrt((a * a).sum(tuple(axes), keepdims=True)), epsilon)


def cross_entropy(logits: Array, labels: Array, *, ignored: int | None = None) -> Array:
    losses = [
        -np.log(softmax(row)[label])
        for row, label in zip(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1), strict=True)
        if label != ignored
    ]
    return np.array(sum(losses) / max(len(losses), 1))


erf = np.vectorize(math.erf, otypes=["f8"])


def gelu(a: Array, *, approximate: str) -> Array:
    if approximate == "tanh":
        return a * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3))) / 2
    return a * (1 + erf(a / math.sqrt(2))) / 2


def layer_norm(a: Array, scale: Array, shift: Array, *, epsilon: float) -> Array:
    return (a - a.mean(-1, keepdims=True)) / np.sqrt(a.var(-1, keepdims=True) + epsilon) * scale + shift


def rms_norm(a: Array, scale: Array, *, epsilon: float) -> Array:
    return a / np.sqrt((a * a).mean(-1, keepdims=True) + epsilon) * scale


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, causal: bool, scale: float
) -> Array:
    """One query at a time over the keys that it sees."""
    y = np.zeros(q.shape)
    for n, i, h in np.ndindex(q.shape[:3]):
        group = h * k.shape[2] // q.shape[2]
        scores = k[n, :, group] @ q[n, i, h] * (scale or q.shape[3] ** -0.5)
        if mask is not None:
            scores = scores + np.broadcast_to(mask, (q.shape[0], q.shape[2], q.shape[1], k.shape[1]))[n, h, i]
        seen = [
            j
            for j in range(k.shape[1])
            if scores[j] > -np.inf and (not causal or j <= i + k.shape[1] - q.shape[1])
        ]
        if seen:
            y[n, i, h] = softmax(scores[seen]) @ v[n, seen, group]
    return y


def rotary(a: Array, *, base: float, interleaved: bool, inverse: bool = False) -> Array:
    """Each pair of numbers as one complex number, turned by an angle."""
    half = a.shape[3] // 2
    pairs = [(2 * i, 2 * i + 1) if interleaved else (i, i + half) for i in range(half)]
    y = np.zeros(a.shape)
    for s in range(a.shape[1]):
        for i, (first, second) in enumerate(pairs):
            turn = np.exp((-1j if inverse else 1j) * s * base ** (-2 * i / a.shape[3]))
            turned = (a[:, s, :, first] + 1j * a[:, s, :, second]) * turn
            y[:, s, :, first], y[:, s, :, second] = turned.real, turned.imag
    return y


def selu(a: Array) -> Array:
    return 1.0507009873554805 * np.where(a > 0, a, 1.6732632423543772 * np.expm1(a))


def hidden(*shape: int, keys: Iterable[tuple[int, ...]]) -> Array:
    """A mask that hides some keys; the others have a bias."""
    mask = (x(*shape) / 4).astype("f4")
    for key in keys:
        mask[key] = -np.inf
    return mask


def reduce(a: Array, *, kind: str, axes: list[int]) -> Array:
    return getattr(a, kind)(tuple(axes))


A, B, C, IMAGE = x(2, 3, 4), x(2, 5, 4), x(3, 7), x(2, 2, 6, 5)
PLAIN = {"transpose_a": False, "transpose_b": False}
Q, K, V = x(2, 3, 4, 2), x(2, 3, 4, 2)[::-1], x(2, 3, 4, 2)[:, ::-1]
GROUPS, LONGER = (x(2, 3, 2, 2), x(2, 3, 2, 2) + 1), (x(2, 5, 1, 2), x(2, 5, 1, 2) + 1)
OPEN, CAUSAL = {"causal": False, "scale": 0.0}, {"causal": True, "scale": 0.0}
PADDED = hidden(2, 1, 1, 3, keys=[(0, 0, 0, 2), (1,)])  # of the second sample every key
LABELS = np.array([[1, 3, 0], [2, 1, 1]], "i4")
EACH_HEAD = hidden(1, 4, 3, 3, keys=[(0, 0, 0, 1), (0, 2, 1), (0, 3, 0, 0)])
# PyTorch's fused attention on a CPU takes blocks of 32 queries and 512 keys.
LONG = {"q": drawn(1, 37, 2, 2), "k": drawn(1, 65, 2, 2), "v": drawn(1, 65, 2, 2)[:, ::-1]}
SQUARE = {"q": drawn(1, 65, 1, 2), "k": drawn(1, 65, 1, 2)[..., ::-1], "v": drawn(1, 65, 1, 2)[:, ::-1]}
WIDE = {"q": drawn(1, 2, 1, 2), "k": drawn(1, 520, 1, 2), "v": drawn(1, 520, 1, 2)[:, ::-1]}
LONG_PADDED = hidden(1, 1, 1, 65, keys=[(0, 0, 0, key) for key in range(40, 65)])
# Of functions that broadcast; no divisor is 0.
PAIRS = [
    *(
        (A, A + 9),
        (A, x(3, 4) + 9),
        (IMAGE, x(5) + 9),
        (A, np.array(2.5, "f4")),
        (np.array(2.5, "f4"), A + 9),
    ),
    *((x(4), A + 9), (A, x(3, 1) + 9), (x(4, 1), x(1, 5) + 9), (IMAGE, x(2, 1, 1) + 9)),
    *((IMAGE, x(1, 2, 1, 1) + 9), (x(2, 2, 1, 1), IMAGE + 99)),
]
CASES = [
    *(
        Case(op, {"a": a, "b": b}, {}, function)
        for op, function in {
            "add": np.add,
            "subtract": np.subtract,
            "multiply": np.multiply,
            "divide": np.divide,
        }.items()
        for a, b in PAIRS
    ),
    Case("attention", {"q": Q, "k": K, "v": V}, OPEN, attention),
    Case("attention", {"q": Q, "k": K, "v": V}, {"causal": False, "scale": 1.5}, attention),
    Case("attention", {"q": Q, "k": K, "v": V}, CAUSAL, attention),
    Case("attention", {"q": Q, "k": GROUPS[0], "v": GROUPS[1]}, CAUSAL, attention),
    Case("attention", {"q": Q, "k": LONGER[0], "v": LONGER[1]}, OPEN, attention),
    Case("attention", {"q": Q, "k": LONGER[0], "v": LONGER[1]}, CAUSAL, attention),
    Case("attention", {"q": Q, "k": GROUPS[0][:, :2], "v": GROUPS[1][:, :2]}, CAUSAL, attention),
    Case("attention", {"q": Q, "k": K, "v": V}, OPEN, attention, {"mask": PADDED}),
    Case("attention", {"q": Q, "k": K, "v": V}, CAUSAL, attention, {"mask": PADDED}),
    Case("attention", {"q": Q, "k": GROUPS[0], "v": GROUPS[1]}, OPEN, attention, {"mask": EACH_HEAD}),
    Case("attention", {"q": Q, "k": K, "v": V}, CAUSAL, attention, {"mask": EACH_HEAD}),
    Case("attention", {"q": x(1, 1, 1, 1), "k": x(1, 4, 1, 1), "v": x(1, 4, 1, 1)}, OPEN, attention),
    Case("attention", LONG, OPEN, attention),
    Case("attention", LONG, CAUSAL, attention),
    Case("attention", LONG, OPEN, attention, {"mask": LONG_PADDED}),
    Case("attention", SQUARE, CAUSAL, attention),
    Case("attention", WIDE, OPEN, attention),
    Case(
        "average_pool",
        {"x": IMAGE},
        {"kernel": 3, "stride": 2, "padding": 1},
        average_pool,
    ),
    Case(
        "average_pool",
        {"x": x(1, 2, 2, 1)},
        {"kernel": 5, "stride": 1, "padding": 2},
        average_pool,
    ),
    *(
        Case("average_pool", {"x": x(2, 2, 5, 6)}, window, average_pool)
        for window in (
            {"kernel": [3, 2], "stride": [1, 2], "padding": [0, 1, 2, 1]},
            {"kernel": 3, "stride": 1, "padding": 1, "count_padding": False},
            {"kernel": 3, "stride": 2, "padding": [0, 0, 0, 1], "count_padding": False},
            {"kernel": [2, 3], "stride": 2, "padding": [1, 2, 0, 1], "count_padding": False},
        )
    ),
    *(
        Case("max_pool", {"x": x(2, 2, 5, 6) - 3}, window, max_pool)
        for window in (
            {"kernel": [3, 2], "stride": [1, 2], "padding": [0, 1, 2, 1]},
            {"kernel": 3, "stride": 1, "padding": 1},
            {"kernel": 3, "stride": 2, "padding": [0, 0, 0, 1]},
            {"kernel": 2, "stride": 2, "padding": [0, 0, 1, 0]},
        )
    ),
    Case("clamp", {"x": C * 5}, {"least": 0.0, "most": 6.0}, lambda a, least, most: a.clip(least, most)),
    Case("clamp", {"x": C}, {"least": -0.7, "most": 1.3}, lambda a, least, most: a.clip(least, most)),
    Case("concat", {"a": A, "b": B}, {"axis": 1}, lambda a, b, axis: np.concatenate([a, b], axis)),
    Case(
        "concat", {"a": IMAGE, "b": IMAGE + 1}, {"axis": 3}, lambda a, b, axis: np.concatenate([a, b], axis)
    ),
    Case(
        "convolution", {"x": IMAGE, "w": x(3, 2, 3, 3), "b": x(3)}, {"stride": 2, "padding": 1}, convolution
    ),
    Case("convolution", {"x": IMAGE, "w": x(3, 2, 3, 3)}, {"stride": 1, "padding": 1}, convolution),
    # Windows that reach past the image on both sides.
    Case("convolution", {"x": x(1, 1, 1, 1), "w": x(1, 1, 5, 5)}, {"stride": 1, "padding": 2}, convolution),
    Case("convolution", {"x": x(2, 3, 2, 2), "w": x(4, 3, 7, 7)}, {"stride": 1, "padding": 3}, convolution),
    Case("convolution", {"x": x(1, 2, 3, 1), "w": x(3, 2, 9, 9)}, {"stride": 2, "padding": 5}, convolution),
    # In groups; with one channel in each, and one or two filters for it.
    *(
        Case(
            "convolution",
            {"x": x(2, 4, 5, 6), "w": x(filters, 4 // groups, 3, 2), "b": x(filters)},
            {"stride": stride, "padding": 1, "groups": groups},
            convolution,
        )
        for groups, filters, stride in [(2, 6, 1), (4, 4, 1), (4, 8, 2), (4, 4, [2, 1])]
    ),
    *(
        Case("convolution", {"x": x(2, 2, 6, 7), "w": x(3, 2, 3, 2)}, window, convolution)
        for window in (
            {"stride": [1, 2], "padding": [2, 0, 1, 1]},
            {"stride": 2, "padding": [1, 0, 1, 0]},
            {"stride": 1, "padding": [0, 1, 0, 1], "dilation": 2},
            {"stride": 1, "padding": [3, 0, 2, 1], "dilation": [2, 3]},
        )
    ),
    Case(
        "convolution",
        {"x": x(2, 4, 6, 7), "w": x(4, 1, 3, 3), "b": x(4)},
        {"stride": 1, "padding": 2, "dilation": 2, "groups": 4},
        convolution,
    ),
    *(
        Case(
            "local_response_norm",
            {"x": x(2, 7, 2, 3)},
            {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 2.0},
            local_response_norm,
        )
        for size in (1, 3, 5)
    ),
    Case("dot", {"a": x(9), "b": x(9)[::-1]}, {}, lambda a, b: a @ b),
    Case(
        "dropout",
        {"x": C},
        {"rate": 0.25},
        lambda a, mask, rate: a * (mask != 0) / (1 - rate),
        {"mask": (np.arange(21).reshape(3, 7) % 3 > 0).astype("u1")},
    ),
    Case("flatten", {"x": A}, {}, lambda a: a.reshape(2, 12)),
    *(
        Case("elu", {"x": C * 2}, {"alpha": a}, lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)))
        for a in (1.0, 0.4)
    ),
    Case("gelu", {"x": C * 2}, {"approximate": "none"}, gelu),
    Case("gelu", {"x": C * 2}, {"approximate": "tanh"}, gelu),
    Case("layer_norm", {"x": C, "scale": x(7), "shift": x(7) + 1}, {"epsilon": 1e-12}, layer_norm),
    Case("layer_norm", {"x": A, "scale": x(4), "shift": x(4) + 1}, {"epsilon": 0.5}, layer_norm),
    Case("linear", {"x": A, "w": x(5, 4), "b": x(5)}, {}, lambda a, w, b: a @ w.T + b),
    Case("linear", {"x": C, "w": x(4, 7), "b": x(4)}, {}, lambda a, w, b: a @ w.T + b),
    Case("linear", {"x": C, "w": x(5, 7)}, {}, lambda a, w: a @ w.T),
    Case("lstm", {"x": A, "w": x(8, 4), "r": x(8, 2), "b": x(8)}, {"last": True}, lstm),
    Case("lstm", {"x": A, "w": x(8, 4), "r": x(8, 2), "b": x(8)}, {"last": False}, lstm),
    Case("matmul", {"a": C, "b": x(7, 2)}, PLAIN, lambda a, b, **_: a @ b),
    Case(
        "matmul",
        {"a": A, "b": B},
        {"transpose_a": False, "transpose_b": True},
        lambda a, b, **_: a @ turned(b, True),
    ),
    Case(
        "matmul",
        {"a": x(2, 2, 4, 3), "b": x(2, 2, 4, 5)},
        {"transpose_a": True, "transpose_b": False},
        lambda a, b, **_: turned(a, True) @ b,
    ),
    Case(
        "max_pool",
        {"x": x(1, 2, 6, 5) - 3},
        {"kernel": 3, "stride": 2, "padding": 1},
        max_pool,
    ),
    Case(
        "max_pool",
        {"x": x(1, 2, 2, 1) - 3},
        {"kernel": 5, "stride": 1, "padding": 2},
        max_pool,
    ),
    Case("mean_pool", {"x": A}, {}, mean_pool),
    Case("mean_pool", {"x": A}, {}, mean_pool, {"mask": PADDED}),
    Case("normalise", {"x": C}, {"axes": [0, 1], "epsilon": 1e-12}, normalise),
    Case("normalise", {"x": C}, {"axes": [1], "epsilon": 3.0}, normalise),
    Case(
        "padding_mask",
        {},
        {"padding": 3},
        lambda tokens, padding: np.where(tokens == padding, -np.inf, 0)[:, None, None],
        {"tokens": np.array([[3, 1, 0], [2, 3, 3]], "i4")},
    ),
    Case("reduce", {"x": A}, {"kind": "sum", "axes": [0, 2]}, reduce),
    Case("reduce", {"x": IMAGE}, {"kind": "mean", "axes": [2, 3]}, reduce),
    Case("reduce", {"x": A}, {"kind": "max", "axes": [1, 2]}, reduce),
    *(
        Case("prelu", {"x": values, "slope": slopes}, {}, prelu)
        for values, slopes in [(IMAGE, x(2)), (IMAGE, x(1)), (C, x(7)), (A, x(3) - 1)]
    ),
    Case("relu", {"x": C}, {}, lambda a: np.maximum(a, 0)),
    Case("reshape", {"x": IMAGE}, {"shape": [4, 30]}, lambda a, shape: a.reshape(shape)),
    Case("rms_norm", {"x": C, "scale": x(7)}, {"epsilon": 1e-6}, rms_norm),
    Case("rms_norm", {"x": A, "scale": x(4)}, {"epsilon": 0.5}, rms_norm),
    Case("rotary", {"x": x(2, 3, 1, 4)}, {"base": 10000.0, "interleaved": False}, rotary),
    Case("rotary", {"x": x(2, 3, 2, 4)}, {"base": 100.0, "interleaved": True}, rotary),
    Case("rotary", {"x": x(2, 3, 2, 6)}, {"base": 100.0, "interleaved": False, "inverse": True}, rotary),
    Case("selu", {"x": C * 2}, {}, selu),
    Case("sigmoid", {"x": C}, {}, sigmoid),
    *(
        Case(
            "hard_sigmoid",
            {"x": C * 3},
            {"alpha": a, "beta": 0.5},
            lambda x, alpha, beta: (alpha * x + beta).clip(0, 1),
        )
        for a in (1 / 6, 0.2)
    ),
    Case("hard_swish", {"x": C * 3}, {}, lambda a: a * (a / 6 + 0.5).clip(0, 1)),
    Case("leaky_relu", {"x": C}, {"slope": 0.01}, lambda a, slope: np.where(a > 0, a, slope * a)),
    Case("leaky_relu", {"x": C}, {"slope": 0.3}, lambda a, slope: np.where(a > 0, a, slope * a)),
    Case("silu", {"x": C * 2}, {}, lambda a: a * sigmoid(a)),
    Case(
        "slice", {"x": IMAGE}, {"axis": 1, "begin": 1, "end": 2}, lambda a, axis, begin, end: a[:, begin:end]
    ),
    Case("softmax", {"x": A}, {}, softmax),
    Case("softmax_cross_entropy", {"logits": C}, {}, cross_entropy, {"labels": np.array([6, 0, 2], "i4")}),
    Case("softmax_cross_entropy", {"logits": A}, {}, cross_entropy, {"labels": LABELS}),
    Case("softmax_cross_entropy", {"logits": A}, {"ignored": -100}, cross_entropy, {"labels": LABELS}),
    Case("softmax_cross_entropy", {"logits": A}, {"ignored": 1}, cross_entropy, {"labels": LABELS}),
    Case(
        "softmax_cross_entropy",
        {"logits": A},
        {"ignored": -1},
        cross_entropy,
        {"labels": np.full((2, 3), -1, "i4")},
    ),
    Case("softplus", {"x": C * 20}, {}, lambda a: np.logaddexp(0, a)),
    Case("softsign", {"x": C}, {}, lambda a: a / (1 + np.abs(a))),
    Case("tanh", {"x": C}, {}, np.tanh),
    Case("transpose", {"x": A}, {"permutation": [2, 0, 1]}, lambda a, permutation: a.transpose(permutation)),
    Case(
        "transpose",
        {"x": IMAGE},
        {"permutation": [1, 0, 3, 2]},
        lambda a, permutation: a.transpose(permutation),
    ),
]


def drawn_windows(seed: int, count: int) -> list[Case]:
    """Convolutions and pools of small extents; windows may reach past the image."""
    random = np.random.default_rng(seed)

    def between(least: int, most: int) -> int:
        return int(random.integers(least, most + 1))

    def spelled(*numbers: int) -> int | list[int]:
        return numbers[0] if len(set(numbers)) == 1 else list(numbers)

    cases: list[Case] = []
    while len(cases) < 3 * count:
        extents = h, w = between(1, 5), between(1, 5)
        alike = between(0, 1) == 0
        kernel = [between(1, 4)] * 2 if alike else [between(1, 4), between(1, 4)]
        stride = [between(1, 4)] * 2 if alike else [between(1, 3), between(1, 3)]
        before = [between(0, size - 1) for size in kernel]
        after = before if alike else [between(0, size - 1) for size in kernel]
        if any(e + b + a < k for e, b, a, k in zip(extents, before, after, kernel, strict=True)):
            continue
        n, groups, of_group, filters = between(1, 2), between(1, 2), between(1, 2), between(1, 2)
        c = groups * of_group
        image = random.permutation(n * c * h * w).reshape(n, c, h, w).astype("f4") / 16 - 1  # no ties
        sizes: dict[str, Any] = {"stride": spelled(*stride), "padding": spelled(*before, *after)}
        weight = random.normal(size=(groups * filters, of_group, *kernel)).astype("f4")
        in_groups = {"groups": groups} if groups > 1 else {}
        cases.append(Case("convolution", {"x": image, "w": weight}, sizes | in_groups, convolution))
        pool = {"kernel": spelled(*kernel)} | sizes
        counts = {} if between(0, 1) else {"count_padding": False}
        cases.append(Case("average_pool", {"x": image}, pool | counts, average_pool))
        cases.append(Case("max_pool", {"x": image}, pool, max_pool))
    return cases


# Another number draws other rows, for a campaign.
SEED = int(os.environ.get("ASSAY_SEED", "1"))
DRAWN = drawn_windows(SEED, 12)
# The operands whose whole numbers come first have functions of their own order.
TABLE = Case(
    "embedding",
    {"w": x(5, 3)},
    {},
    lambda w, indices: w[indices],
    {"indices": np.array([[1, 4, 1], [0, 3, 3]], "i4")},
)


def with_tokens(cache: Array, tokens: Array, position: Array) -> Array:
    y = cache.copy()
    y[:, position[0] : position[0] + tokens.shape[1]] = tokens
    return y


def seen_places(position: Array, *, queries: int, keys: int) -> Array:
    seen = [[t <= position[0] + s for t in range(keys)] for s in range(queries)]
    return np.where(seen, 0, -np.inf)[None, None]


POSITION = np.array([2], "i4")
SENTENCES = np.arange(14, dtype="i4").reshape(2, 7)
DECODING = [
    Case("advance", {}, {"by": 3}, lambda position, by: position + by, {"position": POSITION}),
    *(
        Case(
            "cache_mask",
            {},
            {"queries": queries, "keys": 6},
            seen_places,
            {"position": POSITION},
        )
        for queries in (1, 3)
    ),
    *(
        Case(
            "cache_write",
            {},
            {},
            with_tokens,
            {"cache": x(2, 5, 3, 4), "x": -x(2, tokens, 3, 4), "position": POSITION},
        )
        for tokens in (1, 3)
    ),
    *(
        Case(
            "tokens_at",
            {},
            {"length": length},
            lambda tokens, position, length: tokens[:, position[0] : position[0] + length],
            {"tokens": SENTENCES, "position": POSITION},
        )
        for length in (1, 4)
    ),
]


def operand_order(case: Case) -> list[str]:
    return [*case.whole, *case.operands] if case.op == "embedding" else [*case.operands, *case.whole]


def name_of(number: int) -> str:
    return ALL[number].name + (f"-seed{SEED}" if ALL[number] in DRAWN else "")


@cache
def expected_of(number: int) -> Tensors:
    """The result and the gradients of a case, which one process computes for those of all frameworks."""
    file = SHARED / f"op-{number}.npz"
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not file.exists():
            np.savez(file, **differences_of(ALL[number]))
    with np.load(file) as found:
        return {name: found[name] for name in found.files}


def differences_of(case: Case) -> Tensors:
    """The result, and the gradients by central differences for a gradient dy of the result."""
    real = {name: operand.astype("f8") for name, operand in case.operands.items()}
    y = np.asarray(case.contract(*real.values(), *case.whole.values(), **case.attributes))
    found = {"result/y": y}
    dy = cotangent(y.shape).astype("f8")
    for name in real:
        gradient = np.zeros(real[name].shape)
        for place in np.ndindex(gradient.shape):
            moved = []
            for step in (1e-5, -1e-5):
                operand = real[name].copy()
                operand[place] += step
                given = real | {name: operand}
                moved.append(case.contract(*given.values(), *case.whole.values(), **case.attributes))
            gradient[place] = ((moved[0] - moved[1]) * dy).sum() / 2e-5
        found[f"gradient/{name}"] = gradient
    return found


def cotangent(shape: tuple[int, ...]) -> Array:
    return (x(*shape)[..., ::-1] if shape else np.array(0.75)).astype("f4")


def lay_out(folder: Path, case: Case, mode: str, task: str, precision: str = "fp32") -> Path:
    """Write the cell folder of an op program as the conductor does."""
    y = np.asarray(case.contract(*case.operands.values(), *case.whole.values(), **case.attributes))
    order = operand_order(case)
    operands = {**case.operands, **case.whole}
    types = {np.dtype("f4"): "f32", np.dtype("i4"): "i32", np.dtype("u1"): "u8"}
    values = [
        {
            "name": name,
            "dtype": types[operands[name].dtype],
            "shape": list(operands[name].shape),
            "role": "input",
        }
        for name in order
    ]
    made = {"name": "y", "dtype": "f32", "shape": list(y.shape), "role": "intermediate"}
    node = {"name": "y", "op": case.op, "inputs": order, "outputs": ["y"], "attributes": case.attributes}
    if case.op in ("linear", "convolution") and "b" not in order:
        node["inputs"] = [*order, None]

    def graph(fed: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "name": f"op/{case.op}",
            "values": [*fed, made],
            "nodes": [node],
            "outputs": {"y": "y"},
            "updates": {},
        }

    behind = {"name": "dy", "dtype": "f32", "shape": list(y.shape), "role": "input"}
    program = {
        "schema": "assay-program/2",
        "kind": "op",
        "training": graph([*values, behind]),
        "inference": graph(values),
        "cotangents": {"y": "dy"},
    }
    (folder / "check").mkdir(parents=True)
    (folder / "results").mkdir()
    request = {"mode": mode, "task": task, "precision": precision, "threads": 1, "clock": {"kind": "steps"}}
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "graph.json").write_text(json.dumps(program))
    fed = [operands[name] for name in order] + ([cotangent(y.shape)] if task == "train" else [])
    flat = np.concatenate([np.asarray(operand, "f4").reshape(-1) for operand in fed])
    np.save(folder / "check/inputs.npy", flat[None])
    np.save(folder / "check/labels.npy", np.zeros(1, "i4"))
    np.save(folder / "check/schedule.npy", np.array([[0.0, 1], [0.0, 1]]))
    write_tensors(folder / "check/state.safetensors", {})
    batches = {"batch": 1, "distinct": 1, "row_of": [0], "slots": [0]}
    (folder / "check/batches.json").write_text(json.dumps(batches))
    (folder / "check/exam.json").write_text(json.dumps(exam_subject(program, task)))
    return folder


def refused_ops(framework: Framework, mode: str) -> set[str]:
    """The single ops that a mode does not run, by the backend's description."""
    described = json.loads((framework.worker.parent / "backend.json").read_text())
    rules = [rule for rule in described["refuses"] if mode in rule.get("modes", ()) and "ops" in rule]
    return {op for rule in rules if rule.get("single_ops") for op in rule.get("ops", [])} | {
        op
        for rule in described["refuses"]
        if mode in rule.get("modes", ()) and "other_ops" in rule
        for op in set(described["ops"]) - set(rule["other_ops"])
    }


Answers = dict[tuple[int, str], tuple[str, Tensors]]
ALL = [*CASES, TABLE, *DECODING, *DRAWN]
# Not every framework has task decode.
OPTIONAL = {case.op for case in DECODING}


@pytest.fixture(scope="module", params=EACH)
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """Every case in both modes, by one process of the framework."""
    framework: Framework = request.param
    root = tmp_path_factory.mktemp(framework.name)
    cells = {
        (number, mode): lay_out(root / f"{mode}{number}", case, mode, "train" if case.operands else "infer")
        for mode in ("eager", framework.compiled, *framework.op_modes)
        for number, case in enumerate(ALL)
        if mode != framework.compiled or not framework.compiled_ops or case.op in framework.compiled_ops
        if case not in DRAWN or mode == "eager"  # compiling each takes long
        if case.op not in refused_ops(framework, mode)
        if case.op not in OPTIONAL or case.op in ops_of(framework.worker.parent)
    }
    return dict(zip(cells, run_ops(framework, list(cells.values())), strict=True))


def run_ops(framework: Framework, folders: list[Path]) -> list[tuple[str, Tensors]]:
    """Let one process run the ops of these cells; return "ok" or what was wrong, and the results, of each."""
    done = subprocess.run(
        [framework.python, ROOT / "tests/python/run_ops.py", framework.worker.parent, *folders],
        env=os.environ | framework.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line.removeprefix("answer: ") for line in done.stdout.splitlines() if line.startswith("answer: ")]
    assert len(said) == len(folders), done.stdout + done.stderr
    return [
        (answer if answer == "ok" else f"{answer}\n{done.stderr}", results_of(folder))
        for answer, folder in zip(said, folders, strict=True)
    ]


def results_of(folder: Path) -> Tensors:
    file = folder / "results/verify.safetensors"
    found = read_tensors(file) if file.exists() else {}
    return {name: tensor[0] for name, tensor in found.items()}  # of the only set of operands


@pytest.mark.parametrize("number", range(len(ALL)), ids=lambda number: f"{number}-{name_of(number)}")
def test_an_op_and_its_gradients_are_what_the_contract_says(answers: Answers, number: int) -> None:
    expected = expected_of(number)
    if (number, "eager") not in answers:
        pytest.skip("the framework has no task decode")
    for mode in sorted(mode for key, mode in answers if key == number):
        answer, found = answers[number, mode]
        assert answer == "ok", f"{mode}: {answer}"
        assert set(found) == set(expected)
        for name, tensor in expected.items():
            assert found[name].shape == tensor.shape, name
            np.testing.assert_allclose(found[name], tensor, 1e-4, 1e-5, err_msg=f"{mode}: {name}")


@pytest.mark.parametrize("framework", [each for each in EACH if "bf16" in each.values[0].precisions])
def test_an_lstm_in_bf16_adds_up_its_gradients_over_time_in_fp32(
    framework: Framework, tmp_path: Path
) -> None:
    steps = 500  # in bf16 a sum of equal numbers stays at 256 of them
    zeros = {name: np.zeros(shape, "f4") for name, shape in (("w", (4, 1)), ("r", (4, 1)), ("b", (4,)))}
    dy, candidates = cotangent((1, steps, 1)), np.zeros((1, steps, 1), "f4")
    later = 0.0
    for step in reversed(range(steps)):  # with these weights all gates are 1/2
        later = later / 2 + dy[0, step, 0] / 2
        candidates[0, step, 0] = later / 2
    inputs = np.where(np.abs(candidates) > 0.05, 0.5 / candidates, 0).astype("f4")
    case = Case("lstm", {"x": inputs, **zeros}, {"last": False}, lstm)
    folder = lay_out(tmp_path / "cell", case, "eager", "train", "bf16")
    ((answer, found),) = run_ops(framework, [folder])
    assert answer == "ok"
    np.testing.assert_allclose(found["gradient/w"][2, 0], (inputs * candidates).sum(), rtol=0.01)


@pytest.mark.parametrize("framework", EACH)
def test_every_op_of_a_framework_is_met(framework: Framework) -> None:
    elsewhere = {"batch_norm", "from_array", "from_list"}  # test_end_to_end.py
    listed = ops_of(framework.worker.parent)
    assert listed - elsewhere == {case.op for case in ALL} - (OPTIONAL - listed)
    assert listed >= OPTIONAL or not OPTIONAL & listed
