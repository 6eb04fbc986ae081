"""Each op in numpy: its result, and the function from the result's gradient to those of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from assay_worker import Numbers, pair, sides

Array = np.ndarray
Backward = Callable[[Array], tuple[Array | None, ...]]


def linear(x: Array, weight: Array, bias: Array | None, **_: Any) -> tuple[Array, Backward]:
    y = x @ weight.T if bias is None else x @ weight.T + bias

    def backward(dy: Array) -> tuple[Array | None, ...]:
        rows, drows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
        return dy @ weight, drows.T @ rows, drows.sum(0)

    return y, backward


def relu(x: Array, **_: Any) -> tuple[Array, Backward]:
    y = np.maximum(x, 0)
    return y, lambda dy: (np.where(y > 0, dy, 0),)


def flatten(x: Array, **_: Any) -> tuple[Array, Backward]:
    return x.reshape(len(x), -1), lambda dy: (dy.reshape(x.shape),)


def from_array(x: Array, in_list: bool = False) -> tuple[Array, Backward]:
    return np.array(x), lambda dy: (None,)


def from_list(numbers: list[int | float]) -> tuple[Array, Backward]:
    return np.array(numbers, np.float32), lambda dy: (None,)


def add(a: Array, b: Array, **_: Any) -> tuple[Array, Backward]:
    def summed(dy: Array, operand: Array) -> Array:
        """Add up what was repeated of an operand."""
        leading = dy.ndim - operand.ndim
        repeated = [d for d, size in enumerate(operand.shape) if size < dy.shape[leading + d]]
        axes = (*range(leading), *(leading + d for d in repeated))
        return dy.sum(axes).reshape(operand.shape) if axes else dy

    return a + b, lambda dy: (summed(dy, a), summed(dy, b))


def dropout(x: Array, mask: Array, rate: float, **_: Any) -> tuple[Array, Backward]:
    scale = (mask != 0) * x.dtype.type(1 / (1 - rate))
    return x * scale, lambda dy: (dy * scale, None)


class _Windows:
    """Windows over images, of equal kernels: a number or [rows, columns]; the padding may have four sides."""

    def __init__(self, kernel: Numbers, stride: Numbers, padding: Numbers, dilation: Numbers = 1) -> None:
        self.kernel, self.stride, self.dilation = pair(kernel), pair(stride), pair(dilation)
        self.sides = sides(padding)

    def of(self, x: Array) -> Array:
        """Return (N, C, OH, OW, KH, KW)."""
        padded = np.pad(x, ((0, 0), (0, 0), *self.sides))
        extents = [(size - 1) * gap + 1 for size, gap in zip(self.kernel, self.dilation, strict=True)]
        view = np.lib.stride_tricks.sliding_window_view(padded, extents, (2, 3))
        (down, across), (gap, wide) = self.stride, self.dilation
        return view[:, :, ::down, ::across, ::gap, ::wide]

    def back(self, dwindows: Array, shape: tuple[int, ...]) -> Array:
        """Add up where the windows of images of this shape lie; they overlap."""
        (top, bottom), (left, right) = self.sides
        n, c, h, w = shape
        dx = np.zeros((n, c, top + h + bottom, left + w + right), dwindows.dtype)
        height, width = dwindows.shape[2:4]
        for i in range(self.kernel[0]):
            for j in range(self.kernel[1]):
                rows = i * self.dilation[0] + np.arange(height) * self.stride[0]
                columns = j * self.dilation[1] + np.arange(width) * self.stride[1]
                dx[:, :, rows[:, None], columns] += dwindows[..., i, j]
        return dx[:, :, top : top + h, left : left + w]


def convolution(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = 1,
    groups: int = 1,
    **_: Any,
) -> tuple[Array, Backward]:
    window = _Windows(weight.shape[2:], stride, padding, dilation)
    windows = window.of(x)
    shape = windows.shape
    grouped = windows.reshape(len(x), groups, -1, *shape[2:])
    filters = weight.reshape(groups, -1, *weight.shape[1:])
    y = np.einsum("ngcijpq,gocpq->ngoij", grouped, filters, optimize=True)
    y = y.reshape(len(x), -1, *y.shape[3:])
    if bias is not None:
        y = y + bias[:, None, None]

    def backward(dy: Array) -> tuple[Array | None, ...]:
        parts = dy.reshape(len(x), groups, -1, *dy.shape[2:])
        dwindows = np.einsum("ngoij,gocpq->ngcijpq", parts, filters, optimize=True).reshape(shape)
        dweight = np.einsum("ngoij,ngcijpq->gocpq", parts, grouped, optimize=True).reshape(weight.shape)
        return window.back(dwindows, x.shape), dweight, dy.sum((0, 2, 3))

    return y, backward


def average_pool(
    x: Array, kernel: Numbers, stride: Numbers, padding: Numbers, count_padding: bool = True, **_: Any
) -> tuple[Array, Backward]:
    window = _Windows(kernel, stride, padding)
    windows = window.of(x)
    divisor = (np.ones_like(windows) if count_padding else window.of(np.ones_like(x))).sum((4, 5))

    def backward(dy: Array) -> tuple[Array | None, ...]:
        shares = np.broadcast_to((dy / divisor)[..., None, None], windows.shape)
        return (window.back(shares, x.shape),)

    return windows.sum((4, 5)) / divisor, backward


def softmax_cross_entropy(
    logits: Array, labels: Array, ignored: int | None = None, **_: Any
) -> tuple[Array, Backward]:
    shifted = logits - logits.max(-1, keepdims=True)
    log_probabilities = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    counted = np.full(labels.shape, True) if ignored is None else labels != ignored
    number = max(int(counted.sum()), 1)
    chosen = np.where(counted, labels, 0)[..., None]
    losses = -np.take_along_axis(log_probabilities, chosen, -1)[..., 0] * counted

    def backward(dloss: Array) -> tuple[Array | None, ...]:
        gradient = np.exp(log_probabilities)
        at_label = np.take_along_axis(gradient, chosen, -1) - 1
        np.put_along_axis(gradient, chosen, at_label, -1)
        return gradient * (counted[..., None] * (dloss / number)), None

    return losses.sum() / number, backward


def embedding(indices: Array, weight: Array, **_: Any) -> tuple[Array, Backward]:
    def backward(dy: Array) -> tuple[Array | None, ...]:
        gradient = np.zeros_like(weight, dy.dtype)
        np.add.at(gradient, indices, dy)
        return None, gradient

    return weight[indices], backward


def reshape(x: Array, shape: list[int], **_: Any) -> tuple[Array, Backward]:
    return x.reshape(shape), lambda dy: (dy.reshape(x.shape),)


def slice_(x: Array, axis: int, begin: int, end: int, **_: Any) -> tuple[Array, Backward]:
    shown = (*[slice(None)] * axis, slice(begin, end))

    def backward(dy: Array) -> tuple[Array | None, ...]:
        dx = np.zeros(x.shape, dy.dtype)
        dx[shown] = dy
        return (dx,)

    return x[shown], backward


def transpose(x: Array, permutation: list[int], **_: Any) -> tuple[Array, Backward]:
    return x.transpose(permutation), lambda dy: (dy.transpose(np.argsort(permutation)),)


_erf = np.vectorize(math.erf, otypes=[np.float64])


def gelu(x: Array, approximate: str, **_: Any) -> tuple[Array, Backward]:
    if approximate == "tanh":
        c = np.sqrt(2 / np.pi).astype(x.dtype)
        t = np.tanh(c * (x + 0.044715 * x**3))
        slope = (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)
        return x * (1 + t) / 2, lambda dy: (dy * slope,)
    share = ((1 + _erf(x / np.sqrt(2))) / 2).astype(x.dtype)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi).astype(x.dtype)
    return x * share, lambda dy: (dy * (share + x * density),)


def silu(x: Array, **_: Any) -> tuple[Array, Backward]:
    share = 1 / (1 + np.exp(-x))
    return x * share, lambda dy: (dy * (share + x * share * (1 - share)),)


def layer_norm(x: Array, scale: Array, shift: Array, epsilon: float, **_: Any) -> tuple[Array, Backward]:
    centred = x - x.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + epsilon)
    normal = centred * inverse
    leading = tuple(range(x.ndim - 1))

    def backward(dy: Array) -> tuple[Array | None, ...]:
        g = dy * scale
        dx = g - g.mean(-1, keepdims=True) - normal * (g * normal).mean(-1, keepdims=True)
        return inverse * dx, (dy * normal).sum(leading), dy.sum(leading)

    return normal * scale + shift, backward


def rms_norm(x: Array, scale: Array, epsilon: float, **_: Any) -> tuple[Array, Backward]:
    inverse = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)
    normal = x * inverse

    def backward(dy: Array) -> tuple[Array | None, ...]:
        g = dy * scale
        dx = inverse * (g - normal * (g * normal).mean(-1, keepdims=True))
        return dx, (dy * normal).sum(tuple(range(x.ndim - 1)))

    return normal * scale, backward


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, *, causal: bool, scale: float, **_: Any
) -> tuple[Array, Backward]:
    batch, queries, heads, width = q.shape
    keys, groups = k.shape[1:3]
    factor = scale or 1 / math.sqrt(width)
    of_heads = [np.repeat(x, heads // groups, 2) for x in (k, v)]
    q_, k_, v_ = (x.transpose(0, 2, 1, 3) for x in (q, *of_heads))
    scores = factor * q_ @ k_.swapaxes(2, 3)
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = np.where(np.tri(queries, keys, keys - queries, dtype=bool), scores, -np.inf)
    largest = scores.max(-1, keepdims=True)
    shares = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = shares.sum(-1, keepdims=True)
    shares = shares / np.where(total == 0, 1, total)  # a query that sees no key gets zeros

    def of_groups(x: Array) -> Array:
        summed: Array = x.transpose(0, 2, 1, 3).reshape(batch, keys, groups, -1, width).sum(3)
        return summed

    def backward(dy: Array) -> tuple[Array | None, ...]:
        dy_ = dy.transpose(0, 2, 1, 3)
        dshares = dy_ @ v_.swapaxes(2, 3)
        dscores = shares * (dshares - (dshares * shares).sum(-1, keepdims=True)) * factor
        dq = (dscores @ k_).transpose(0, 2, 1, 3)
        dk, dv = dscores.swapaxes(2, 3) @ q_, shares.swapaxes(2, 3) @ dy_
        return dq, of_groups(dk), of_groups(dv), None

    return (shares @ v_).transpose(0, 2, 1, 3), backward


def rotary(
    x: Array, base: float, interleaved: bool, inverse: bool = False, **_: Any
) -> tuple[Array, Backward]:
    _, length, _, width = x.shape
    angles = np.outer(np.arange(length), base ** -(np.arange(0, width, 2) / width))[:, None]
    first = slice(0, None, 2) if interleaved else slice(0, width // 2)
    second = slice(1, None, 2) if interleaved else slice(width // 2, None)

    def turned(x: Array, by: Array) -> Array:
        y = np.empty_like(x)
        y[..., first] = x[..., first] * np.cos(by) - x[..., second] * np.sin(by)
        y[..., second] = x[..., first] * np.sin(by) + x[..., second] * np.cos(by)
        return y

    angles = -angles if inverse else angles
    return turned(x, angles), lambda dy: (turned(dy, -angles),)


def padding_mask(tokens: Array, padding: int, **_: Any) -> tuple[Array, Backward]:
    mask = np.where(tokens == padding, -np.inf, 0).astype(np.float32)
    return mask[:, None, None], lambda dy: (None,)


def mean_pool(x: Array, mask: Array | None = None, **_: Any) -> tuple[Array, Backward]:
    counted = np.ones(x.shape[:2]) if mask is None else mask[:, 0, 0] != -np.inf
    shares = (counted / np.maximum(counted.sum(1, keepdims=True), 1)).astype(x.dtype)[..., None]
    return (x * shares).sum(1), lambda dy: (dy[:, None] * shares, None)


OPS: dict[str, Callable[..., tuple[Array, Backward]]] = {
    "add": add,
    "attention": attention,
    "average_pool": average_pool,
    "convolution": convolution,
    "dropout": dropout,
    "embedding": embedding,
    "flatten": flatten,
    "from_array": from_array,
    "from_list": from_list,
    "gelu": gelu,
    "layer_norm": layer_norm,
    "linear": linear,
    "mean_pool": mean_pool,
    "padding_mask": padding_mask,
    "relu": relu,
    "reshape": reshape,
    "rms_norm": rms_norm,
    "rotary": rotary,
    "silu": silu,
    "slice": slice_,
    "softmax_cross_entropy": softmax_cross_entropy,
    "transpose": transpose,
}
