"""graph.json as a module: one function per op, shared parameters for training and inference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from assay_worker import Graph, Node, Program, Unsupported
from torch import Tensor, nn

Op = Callable[..., Tensor]


def convolution(stride: int, padding: int) -> Op:
    return lambda x, weight, bias: F.conv2d(x, weight, bias, stride, padding)


def average_pool(kernel: int, stride: int, padding: int) -> Op:
    # The divisor counts the padding: PyTorch's own default.
    return lambda x: F.avg_pool2d(x, kernel, stride, padding)


def max_pool(kernel: int, stride: int, padding: int) -> Op:
    return lambda x: F.max_pool2d(x, kernel, stride, padding)


def batch_norm(epsilon: float, momentum: float, training: bool) -> Op:
    def infer(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)

    def train(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        # PyTorch's momentum is the share of the new, and it keeps the unbiased variance, n / (n - 1) of ours:
        # momentum * old + (1 - momentum) * biased = (n - 1) / n * PyTorch's + momentum / n * old
        n = x.numel() // x.shape[1]
        theirs = variance.clone()  # what autograd has seen must stay as it is
        y = F.batch_norm(x, mean, theirs, weight, bias, True, 1 - momentum, epsilon)
        with torch.no_grad():
            variance.mul_(momentum / n).add_(theirs, alpha=(n - 1) / n)
        return y

    return train if training else infer


def softmax_cross_entropy() -> Op:
    return lambda logits, labels: F.cross_entropy(logits.float(), labels)


OPS: dict[str, Callable[..., Op]] = {
    "add": lambda: torch.add,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "convolution": convolution,
    "flatten": lambda: lambda x: torch.flatten(x, 1),
    "linear": lambda: F.linear,
    "max_pool": max_pool,
    "relu": lambda: F.relu,
    "softmax_cross_entropy": softmax_cross_entropy,
}


def translate(node: Node) -> Op:
    """Raise Unsupported when PyTorch's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the torch adapter has no such op")
    try:
        return OPS[node.op](**node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


class Network(nn.Module):
    """The program's parameters and running statistics, and its two graphs over them."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        # A parameter's name has dots, an attribute's must not.
        self._attributes = {v.name: v.name.replace(".", "_") for v in program.parameters + program.states}
        for value in program.parameters:
            self.register_parameter(self._attributes[value.name], nn.Parameter(torch.zeros(value.shape)))
        for value in program.states:
            self.register_buffer(self._attributes[value.name], torch.zeros(value.shape))
        self._training, self._inference = self._plan(program.training), self._plan(program.inference)
        self._loss, self._logits = program.training.outputs["loss"], program.training.outputs["logits"]
        self._inferred = program.inference.outputs["logits"]

    def forward(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and logits in training mode."""
        values = self._run(self._training, {"inputs": inputs, "labels": labels})
        return values[self._loss], values[self._logits]

    def infer(self, inputs: Tensor) -> Tensor:
        """Logits in inference mode."""
        return self._run(self._inference, {"inputs": inputs})[self._inferred]

    def tensor(self, name: str) -> Tensor:
        """A parameter or running statistic by its name in the graph."""
        return getattr(self, self._attributes[name])

    def _plan(self, graph: Graph) -> list[tuple[Op, list[str | None], str]]:
        return [(translate(node), list(node.inputs), str(node.outputs[0])) for node in graph.nodes]

    def _run(self, plan: list[Any], values: dict[str | None, Any]) -> dict[str | None, Any]:
        values[None] = None
        for name in self._attributes:
            values[name] = self.tensor(name)
        for op, operands, result in plan:
            values[result] = op(*[values[operand] for operand in operands])
        return values
