"""Each op in numpy: its result, and the function from the result's gradient to those of its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Backward = Callable[[Array], tuple[Array | None, ...]]


def linear(x: Array, weight: Array, bias: Array | None, **_: Any) -> tuple[Array, Backward]:
    y = x @ weight.T if bias is None else x @ weight.T + bias
    return y, lambda dy: (dy @ weight, dy.T @ x, dy.sum(0))


def relu(x: Array, **_: Any) -> tuple[Array, Backward]:
    y = np.maximum(x, 0)
    return y, lambda dy: (np.where(y > 0, dy, 0),)


def flatten(x: Array, **_: Any) -> tuple[Array, Backward]:
    return x.reshape(len(x), -1), lambda dy: (dy.reshape(x.shape),)


def from_array(x: Array) -> tuple[Array, Backward]:
    return np.array(x), lambda dy: (None,)


def from_list(numbers: list[int | float]) -> tuple[Array, Backward]:
    return np.array(numbers, np.float32), lambda dy: (None,)


def add(a: Array, b: Array, **_: Any) -> tuple[Array, Backward]:
    return a + b, lambda dy: (dy, dy)


def dropout(x: Array, mask: Array, rate: float, **_: Any) -> tuple[Array, Backward]:
    scale = (mask != 0) * np.float32(1 / (1 - rate))
    return x * scale, lambda dy: (dy * scale, None)


def _windows(x: Array, rows: int, columns: int, stride: int) -> Array:
    """Return a view (N, C, OH, OW, KH, KW) of x."""
    view = np.lib.stride_tricks.sliding_window_view(x, (rows, columns), (2, 3), writeable=True)
    return view[:, :, ::stride, ::stride]


def _padded(x: Array, padding: int) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))


def _cropped(x: Array, padding: int) -> Array:
    return x[:, :, padding : x.shape[2] - padding, padding : x.shape[3] - padding]


def _scatter(dwindows: Array, shape: tuple[int, ...], stride: int) -> Array:
    """Add (N, C, OH, OW, KH, KW) up where the windows of an array of this shape lie; they overlap."""
    dx = np.zeros(shape, dwindows.dtype)
    _, _, height, width, rows, columns = dwindows.shape
    for i in range(rows):
        for j in range(columns):
            dx[:, :, i : i + height * stride : stride, j : j + width * stride : stride] += dwindows[..., i, j]
    return dx


def convolution(
    x: Array, weight: Array, bias: Array | None, stride: int, padding: int, **_: Any
) -> tuple[Array, Backward]:
    padded = _padded(x, padding)
    _, _, rows, columns = weight.shape
    windows = _windows(padded, rows, columns, stride)
    y = np.moveaxis(np.tensordot(windows, weight, ((1, 4, 5), (1, 2, 3))), 3, 1)
    if bias is not None:
        y = y + bias[:, None, None]

    def backward(dy: Array) -> tuple[Array | None, ...]:
        dwindows = np.moveaxis(np.tensordot(dy, weight, (1, 0)), 3, 1)
        dweight = np.tensordot(dy, windows, ((0, 2, 3), (0, 2, 3)))
        return _cropped(_scatter(dwindows, padded.shape, stride), padding), dweight, dy.sum((0, 2, 3))

    return y, backward


def average_pool(x: Array, kernel: int, stride: int, padding: int, **_: Any) -> tuple[Array, Backward]:
    padded = _padded(x, padding)
    y = _windows(padded, kernel, kernel, stride).mean((4, 5))

    def backward(dy: Array) -> tuple[Array | None, ...]:
        share = np.broadcast_to((dy / kernel**2)[..., None, None], (*dy.shape, kernel, kernel))
        return (_cropped(_scatter(share, padded.shape, stride), padding),)

    return y, backward


def softmax_cross_entropy(logits: Array, labels: Array, **_: Any) -> tuple[Array, Backward]:
    shifted = logits - logits.max(1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    rows = np.arange(len(labels))

    def backward(dloss: Array) -> tuple[Array | None, ...]:
        gradient = np.exp(log_probabilities)
        gradient[rows, labels] -= 1
        return gradient * (dloss / len(labels)), None

    return -log_probabilities[rows, labels].mean(), backward


OPS: dict[str, Callable[..., tuple[Array, Backward]]] = {
    "add": add,
    "average_pool": average_pool,
    "convolution": convolution,
    "dropout": dropout,
    "flatten": flatten,
    "from_array": from_array,
    "from_list": from_list,
    "linear": linear,
    "relu": relu,
    "softmax_cross_entropy": softmax_cross_entropy,
}
