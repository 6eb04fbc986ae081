"""The modules of torch.nn for single ops, as users construct and call them (mode `layer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.nn.functional as F
from assay_worker import Node, Numbers, Value, even, pair, required, sides
from torch import Tensor, nn
from torch_network import PoolWindow, average_pool, max_pool

# The operands of a node that are values of the program, in order; None for an absent operand.
Operands = list[Value | None]
Make = Callable[..., nn.Module]


class PaddedConv2d(nn.Conv2d):
    """PyTorch's own pads opposite sides alike."""

    edges = (0, 0, 0, 0)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.pad(x, self.edges))


def convolution(
    operands: Operands, stride: Numbers, padding: Numbers, dilation: Numbers = 1, groups: int = 1
) -> nn.Module:
    channels, inputs, *kernel = required(operands[1]).shape
    pads = even(padding)
    module = (nn.Conv2d if pads is not None else PaddedConv2d)(
        inputs * groups,
        channels,
        tuple(kernel),
        pair(stride),
        pads or 0,
        pair(dilation),
        groups,
        bias=operands[2] is not None,
        device="meta",
    )
    if isinstance(module, PaddedConv2d):
        rows, columns = sides(padding)
        module.edges = (*columns, *rows)
    return module


class Function(nn.Module):
    """A function where PyTorch has no module."""

    def __init__(self, run: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._run = run

    def forward(self, x: Tensor) -> Tensor:
        return self._run(x)


def pool(of_network: Callable[..., Callable[[Tensor], Tensor]], module: type[nn.Module]) -> Make:
    """The module, if it pads as the window does; else what a network has."""

    def make(
        operands: Operands, kernel: Numbers, stride: Numbers, padding: Numbers, **more: bool
    ) -> nn.Module:
        window = PoolWindow.of(kernel, stride, padding)
        if more or not window.fits(required(operands[0]).shape[2:], False):
            return Function(of_network(kernel, stride, padding, **more))
        return module(window.kernel, window.stride, window.before)

    return make


def embedding(operands: Operands, sparse_gradient: bool = False) -> nn.Module:
    return nn.Embedding(*required(operands[1]).shape, sparse=sparse_gradient, device="meta")


def layer_norm(operands: Operands, epsilon: float) -> nn.Module:
    return nn.LayerNorm(required(operands[1]).shape, epsilon, device="meta")


def linear(operands: Operands) -> nn.Module:
    units, inputs = required(operands[1]).shape
    return nn.Linear(inputs, units, bias=operands[2] is not None, device="meta")


def plain(make: Callable[..., nn.Module], *given: Any) -> Make:
    """A module without parameters, with the op's attributes as arguments."""
    return lambda operands, **attributes: make(*given, **attributes)


LAYERS: dict[str, Make] = {
    "average_pool": pool(average_pool, nn.AvgPool2d),
    "clamp": lambda operands, least, most: nn.Hardtanh(least, most),
    "convolution": convolution,
    "elu": plain(nn.ELU),
    "embedding": embedding,
    "flatten": plain(nn.Flatten),
    "gelu": plain(nn.GELU),
    "hard_swish": plain(nn.Hardswish),
    "layer_norm": layer_norm,
    "leaky_relu": lambda operands, slope: nn.LeakyReLU(slope),
    "linear": linear,
    "max_pool": pool(max_pool, nn.MaxPool2d),
    "prelu": lambda operands: nn.PReLU(required(operands[1]).shape[0], device="meta"),
    "relu": plain(nn.ReLU),
    "selu": plain(nn.SELU),
    "sigmoid": plain(nn.Sigmoid),
    "silu": plain(nn.SiLU),
    "softmax": plain(nn.Softmax, -1),
    "softplus": plain(nn.Softplus),
    "softsign": plain(nn.Softsign),
    "tanh": plain(nn.Tanh),
}


class Layer:
    """A module with the operands of one slot: its parameters are some of them."""

    def __init__(self, node: Node, values: dict[str, Value], held: dict[str, Tensor]) -> None:
        operands = [values.get(name) if name else None for name in node.inputs]
        self.module = LAYERS[node.op](operands, **node.attributes)
        self.tensors = dict(held)  # by the names of the operands
        kept = [] if next(self.module.parameters(), None) is None else node.inputs[1:]
        for attribute, name in zip(("weight", "bias"), kept, strict=False):
            if name is not None:
                parameter = nn.Parameter(held[name].detach(), held[name].requires_grad)
                setattr(self.module, attribute, parameter)
                self.tensors[name] = parameter
        self.fed = [held[name] for name in node.inputs if name is not None and name not in kept]

    def __call__(self) -> Tensor:
        found: Tensor = self.module(*self.fed)
        return found
