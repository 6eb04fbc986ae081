"""graph.json as a HybridBlock: one Gluon block per node, called in the order of the graph."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from assay_worker import Graph, Node, Program, Unsupported, Value
from mxnet import gluon
from mxnet.gluon import nn

# The operands of a node that are values of the program, in order; None where one is absent.
Operands = list[Value | None]
Make = Callable[..., gluon.Block]


def convolution(operands: Operands, stride: int, padding: int) -> gluon.Block:
    _, weight, bias = operands
    channels, in_channels, *kernel = weight.shape
    return nn.Conv2D(channels, kernel, stride, padding, in_channels=in_channels, use_bias=bias is not None)


def linear(operands: Operands) -> gluon.Block:
    _, weight, bias = operands
    units, in_units = weight.shape
    return nn.Dense(units, use_bias=bias is not None, flatten=False, in_units=in_units)


def average_pool(operands: Operands, kernel: int, stride: int, padding: int) -> gluon.Block:
    return nn.AvgPool2D(kernel, stride, padding, count_include_pad=True)


def max_pool(operands: Operands, kernel: int, stride: int, padding: int) -> gluon.Block:
    return nn.MaxPool2D(kernel, stride, padding)


def batch_norm(operands: Operands, epsilon: float, momentum: float, training: bool) -> gluon.Block:
    # Whether it trains is what autograd records, and not the block's matter.
    return nn.BatchNorm(momentum=momentum, epsilon=epsilon, in_channels=operands[1].shape[0])


def embedding(operands: Operands, sparse_gradient: bool = False) -> gluon.Block:
    rows, width = operands[1].shape
    return nn.Embedding(rows, width, sparse_grad=sparse_gradient)


class Lstm(gluon.HybridBlock):
    """One layer, batch first. Its second bias stays zero, since the contract has one."""

    def __init__(self, inputs: int, hidden: int, last: bool) -> None:
        super().__init__()
        self._last = last
        self.layer = gluon.rnn.LSTM(hidden, layout="NTC", input_size=inputs)
        self.layer.l0_h2h_bias.grad_req = "null"

    def hybrid_forward(self, F: Any, x: Any) -> Any:  # noqa: N803
        y = self.layer(x)
        # Not SequenceLast, which crashes in 1.9.1.
        return F.squeeze(F.slice_axis(y, axis=1, begin=-1, end=None), axis=1) if self._last else y


def lstm(operands: Operands, last: bool) -> gluon.Block:
    _, weight, recurrent_weight, _ = operands
    return Lstm(weight.shape[1], recurrent_weight.shape[1], last)


OPS: dict[str, Make] = {
    "add": lambda operands: nn.HybridLambda("elemwise_add"),
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "convolution": convolution,
    "embedding": embedding,
    "flatten": lambda operands: nn.Flatten(),
    "linear": linear,
    "lstm": lstm,
    "max_pool": max_pool,
    "relu": lambda operands: nn.Activation("relu"),
}
LOSS = "softmax_cross_entropy"
# The operands that a block keeps as parameters of its own, by the names that Gluon has for them.
KEPT = {
    "batch_norm": ("gamma", "beta", "running_mean", "running_var"),
    "convolution": ("weight", "bias"),
    "embedding": ("weight",),
    "linear": ("weight", "bias"),
    "lstm": ("layer.l0_i2h_weight", "layer.l0_h2h_weight", "layer.l0_i2h_bias"),
}


def translate(node: Node, values: dict[str, Value]) -> gluon.Block:
    """Raise Unsupported when MXNet's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the mxnet adapter has no such op")
    operands = [values.get(name) if name else None for name in node.inputs]
    try:
        return OPS[node.op](operands, **node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


class Network(gluon.HybridBlock):
    """Inputs (B, ...) to logits (B, classes); whether it trains is autograd's mode."""

    def __init__(self, program: Program) -> None:
        super().__init__()
        graph = program.training
        self._logits = graph.outputs["logits"]
        self._plan: list[tuple[gluon.Block, list[str | None], str]] = []
        self._named: dict[str, gluon.Parameter] = {}
        for node in _before_loss(graph):
            block = translate(node, graph.values)
            self.register_child(block)
            kept = KEPT.get(node.op, ())
            fed = list(node.inputs[: len(node.inputs) - len(kept)])
            self._plan.append((block, fed, str(node.outputs[0])))
            for name, attribute in zip(node.inputs[len(fed) :], kept, strict=True):
                if name is not None:
                    self._named[name] = attrgetter(attribute)(block)

    def hybrid_forward(self, F: Any, inputs: Any) -> Any:  # noqa: N803
        values = {"inputs": inputs}
        for block, operands, result in self._plan:
            values[result] = block(*[values[name] for name in operands])
        return values[self._logits]

    def tensor(self, name: str) -> gluon.Parameter:
        """A parameter or running statistic by its name in the graph."""
        return self._named[name]


def _before_loss(graph: Graph) -> list[Node]:
    if graph.nodes[-1].op != LOSS:
        raise Unsupported(f"[{graph.nodes[-1].op}] the mxnet adapter knows one loss, {LOSS}")
    return list(graph.nodes[:-1])
