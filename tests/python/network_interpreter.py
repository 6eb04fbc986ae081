"""Computes a network.json with numpy, as docs/reference/operators.md has the ops: for small networks only."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from assay_worker.tensors import read_tensors

Array = np.ndarray
Numbers = int | list[int]
ERF = np.vectorize(math.erf, otypes=[float])


def spread(numbers: Numbers, count: int) -> list[int]:
    return [numbers] * count if isinstance(numbers, int) else numbers


def patches(
    x: Array,
    kernel: Sequence[int],
    stride: Numbers,
    padding: Numbers,
    fill: float = 0.0,
    dilation: Numbers = 1,
) -> Array:
    """Return the windows as (N, C, rows, columns, kernel rows, kernel columns)."""
    (down, across), (d, e) = spread(stride, 2), spread(dilation, 2)
    top, left, bottom, right = spread(padding, 4)
    padded = np.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)], constant_values=fill)
    extents = (kernel[0] - 1) * d + 1, (kernel[1] - 1) * e + 1
    windows = np.lib.stride_tricks.sliding_window_view(padded, extents, (2, 3))
    return windows[:, :, ::down, ::across, ::d, ::e]


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    *,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Array:
    windows = patches(x, weight.shape[2:], stride, padding, 0.0, dilation)
    windows = windows.reshape(len(x), groups, -1, *windows.shape[2:])
    filters = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.einsum("ngchwpq,gocpq->ngohw", windows, filters, optimize=True)
    y = y.reshape(len(x), -1, *y.shape[3:])
    return y if bias is None else y + bias[:, None, None]


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y = x @ weight.T
    return y if bias is None else y + bias


def batch_norm(x: Array, *given: Array, epsilon: float, momentum: float) -> Array:
    weight, bias, mean, variance = (each[:, None, None] for each in given)
    return (x - mean) / np.sqrt(variance + epsilon) * weight + bias


def layer_norm(x: Array, scale: Array, shift: Array, *, epsilon: float) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * scale + shift


def rms_norm(x: Array, scale: Array, *, epsilon: float) -> Array:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * scale


def gelu(x: Array, *, approximate: str) -> Array:
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + ERF(x / math.sqrt(2)))


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, causal: bool, scale: float
) -> Array:
    group = q.shape[2] // k.shape[2]
    k, v = (np.repeat(each, group, 2) for each in (k, v))
    scores = np.einsum("nshd,nthd->nhst", q, k) * (scale or 1 / math.sqrt(q.shape[3]))
    if mask is not None:
        scores = scores + mask
    if causal:
        queries, keys = scores.shape[2:]
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    return np.einsum("nhst,nthd->nshd", softmax(scores), v)


def lstm(x: Array, weight: Array, recurrent: Array, bias: Array, *, last: bool) -> Array:
    units = recurrent.shape[1]
    h = c = np.zeros((len(x), units))
    every = []
    for t in range(x.shape[1]):
        i, f, g, o = np.split(x[:, t] @ weight.T + h @ recurrent.T + bias, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        every.append(h)
    return h if last else np.stack(every, 1)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def selu(x: Array) -> Array:
    return 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))


def reduce(x: Array, *, kind: str, axes: list[int]) -> Array:
    return {"mean": np.mean, "sum": np.sum, "max": np.max}[kind](x, axis=tuple(axes))


def slice_(x: Array, *, axis: int, begin: int, end: int) -> Array:
    return np.take(x, range(begin, end), axis)


def matmul(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    return (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)


def padding_mask(tokens: Array, *, padding: int) -> Array:
    return np.where(tokens == padding, -np.inf, 0.0)[:, None, None]


def average_pool(
    x: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers, count_padding: bool = True
) -> Array:
    means = patches(x, spread(kernel, 2), stride, padding).mean((4, 5))
    if count_padding:
        return means
    return means / patches(np.ones_like(x), spread(kernel, 2), stride, padding).mean((4, 5))


def local_response_norm(x: Array, *, size: int, alpha: float, beta: float, bias: float) -> Array:
    padded = np.pad(x**2, [(0, 0), (size // 2, size // 2), (0, 0), (0, 0)])
    squares = sum(padded[:, k : k + x.shape[1]] for k in range(size))
    return x / (bias + alpha / size * squares) ** beta


def prelu(x: Array, slope: Array) -> Array:
    return np.where(x > 0, x, slope.reshape(-1, *[1] * (x.ndim - 2)) * x)


def max_pool(x: Array, *, kernel: Numbers, stride: Numbers, padding: Numbers) -> Array:
    return patches(x, spread(kernel, 2), stride, padding, -np.inf).max((4, 5))


def mean_pool(x: Array, mask: Array | None = None) -> Array:
    if mask is None:
        return x.mean(1)
    counted = (mask[:, 0, 0] > -np.inf)[..., None]
    return (x * counted).sum(1) / np.maximum(counted.sum(1), 1)


def normalise(x: Array, *, axes: list[int], epsilon: float) -> Array:
    return x / np.maximum(np.sqrt((x**2).sum(tuple(axes), keepdims=True)), epsilon)


OPS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "attention": attention,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "clamp": lambda x, least, most: np.clip(x, least, most),
    "concat": lambda *x, axis: np.concatenate(x, axis),
    "convolution": convolution,
    "divide": np.divide,
    "dropout": lambda x, rate: x,
    "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
    "embedding": lambda indices, weight: weight[indices.astype(int)],
    "gelu": gelu,
    "hard_sigmoid": lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1),
    "hard_swish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "layer_norm": layer_norm,
    "leaky_relu": lambda x, slope: np.where(x > 0, x, slope * x),
    "linear": linear,
    "lstm": lstm,
    "local_response_norm": local_response_norm,
    "matmul": matmul,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "multiply": np.multiply,
    "normalise": normalise,
    "padding_mask": padding_mask,
    "prelu": prelu,
    "reduce": reduce,
    "relu": lambda x: np.maximum(x, 0),
    "reshape": lambda x, shape: x.reshape(shape),
    "rms_norm": rms_norm,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "slice": slice_,
    "softmax": softmax,
    "softplus": lambda x: np.logaddexp(x, 0),
    "softsign": lambda x: x / (1 + abs(x)),
    "subtract": np.subtract,
    "tanh": np.tanh,
    "transpose": lambda x, permutation: x.transpose(permutation),
}


def compute(document: dict[str, Any], tensors: dict[str, Array], x: Array) -> Array:
    """Return the logits of a batch, in f64."""
    values = {name: np.asarray(array, np.float64) for name, array in tensors.items()}
    values[document["input"]["name"]] = np.asarray(x, np.float64)
    for node in document["nodes"]:
        operands = [None if name is None else values[name] for name in node["inputs"]]
        values[node["name"]] = OPS[node["op"]](*operands, **node["attributes"])
    return values[document["output"]]


def compute_folder(folder: Path, x: Array) -> Array:
    document = json.loads((folder / "network.json").read_text(encoding="utf-8"))
    return compute(document, read_tensors(folder / "weights.safetensors"), x)
