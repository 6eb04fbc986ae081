"""Correct layers that round differently from PyTorch's own: the check must not refuse an adapter with them.

Libraries choose such algorithms by the shape of a layer. The edits VARIANTS of edits.py put them into torch's
adapter. Arguments and results are those of the function of torch.nn.functional that each replaces.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def square(
    strides: tuple[int, int], pads: tuple[int, int], dilations: tuple[int, int], groups: int
) -> tuple[int, int]:
    """Return the stride and the padding of a plain window."""
    assert strides[0] == strides[1] and pads[0] == pads[1] and dilations == (1, 1) and groups == 1
    return strides[0], pads[0]


def convolution_by_products(x: Tensor, weight: Tensor, bias: Tensor, *window: Any) -> Tensor:
    """Convolve by one matrix product of the windows (im2col)."""
    stride, padding = square(*window)
    out, _, *kernel = weight.shape
    height, width = ((n + 2 * padding - k) // stride + 1 for n, k in zip(x.shape[2:], kernel, strict=True))
    windows = F.unfold(x, kernel, padding=padding, stride=stride)
    return (weight.flatten(1) @ windows + bias[:, None]).view(-1, out, height, width)


def convolution_by_fourier(x: Tensor, weight: Tensor, bias: Tensor, *window: Any) -> Tensor:
    """Convolve by a product of Fourier transforms in fp32."""
    stride, padding = square(*window)
    x = F.pad(x, [padding] * 4)
    size = x.shape[2:]
    spectrum = torch.einsum("nchw,ochw->nohw", torch.fft.rfft2(x), torch.fft.rfft2(weight, size).conj())
    height, width = (n - k + 1 for n, k in zip(size, weight.shape[2:], strict=True))
    y = torch.fft.irfft2(spectrum, size)[..., :height:stride, :width:stride]
    return y + bias[:, None, None]


# The matrices of F(4x4, 3x3): Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015,
# section 4.3.
INPUT_TRANSFORM = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
FILTER_TRANSFORM = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
OUTPUT_TRANSFORM = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)


@cache
def _matrix(rows: tuple[tuple[float, ...], ...]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32)


def convolution_by_winograd(x: Tensor, weight: Tensor, bias: Tensor, *window: Any) -> Tensor:
    """Convolve with a kernel of 3x3 at stride 1 by Winograd's F(4x4, 3x3); others are PyTorch's."""
    stride, padding = square(*window)
    if weight.shape[2:] != (3, 3) or stride != 1:
        return F.conv2d(x, weight, bias, stride, padding)
    height, width = (n + 2 * padding - 2 for n in x.shape[2:])
    down, right = -height % 4, -width % 4  # whole tiles of 4x4 results
    padded = F.pad(x, [padding, padding + right, padding, padding + down])
    tiles = padded.unfold(2, 6, 4).unfold(3, 6, 4)  # n, c, rows, columns, 6, 6
    to, of, back = _matrix(INPUT_TRANSFORM), _matrix(FILTER_TRANSFORM), _matrix(OUTPUT_TRANSFORM)
    products = torch.einsum("ncrsij,ocij->norsij", to @ tiles @ to.T, of @ weight @ of.T)
    y = (back @ products @ back.T).transpose(3, 4).flatten(2, 3).flatten(3, 4)
    return y[..., :height, :width] + bias[:, None, None]


def convolution_in_double(x: Tensor, weight: Tensor, bias: Tensor, *window: Any) -> Tensor:
    """Convolve in fp64: an adapter may be better than its precision."""
    return F.conv2d(x.double(), weight.double(), bias.double(), *window).float()


def linear_by_thirds(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Multiply in six products of bf16 operands, as matrix units emulate fp32."""
    return _ByThirds.apply(x, weight) + bias


class _ByThirds(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _product(x, weight.T)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return _product(gradient, weight), _product(gradient.T, x)


def _product(a: Tensor, b: Tensor) -> Tensor:
    (a, a_next, a_last), (b, b_next, b_last) = _thirds(a), _thirds(b)
    return a @ b + (a @ b_next + a_next @ b + (a @ b_last + a_next @ b_next + a_last @ b))


def _thirds(x: Tensor) -> list[Tensor]:
    """Cut a mantissa of 24 bits into three of 8: their sum is x."""
    parts = []
    for _ in range(3):
        parts.append(x.bfloat16().float())
        x = x - parts[-1]
    return parts


def batch_norm_in_one_pass(
    x: Tensor,
    running_mean: Tensor,
    running_variance: Tensor,
    weight: Tensor,
    bias: Tensor,
    training: bool,
    momentum: float,
    epsilon: float,
) -> Tensor:
    """Normalise with the variance E[x^2] - E[x]^2."""
    axes = (0, 2, 3)
    mean, square = x.mean(axes), (x * x).mean(axes)
    variance = square - mean * mean
    n = x.numel() // x.shape[1]
    with torch.no_grad():
        running_mean.lerp_(mean, momentum)
        running_variance.lerp_(variance * (n / (n - 1)), momentum)
    scale = weight * (variance + epsilon).rsqrt()
    return x * scale[:, None, None] + (bias - mean * scale)[:, None, None]


def lstm_of_cells(x: Tensor, weight: Tensor, recurrent_weight: Tensor, bias: Tensor) -> Tensor:
    """Return the hidden states (N, T, H), computed by one cell a step."""
    hidden = cell = x.new_zeros(x.shape[0], recurrent_weight.shape[1])
    states = []
    for step in x.unbind(1):
        gates = F.linear(step, weight, bias) + F.linear(hidden, recurrent_weight)
        take, keep, candidate, show = gates.chunk(4, 1)
        cell = keep.sigmoid() * cell + take.sigmoid() * candidate.tanh()
        hidden = show.sigmoid() * cell.tanh()
        states.append(hidden)
    return torch.stack(states, 1)
