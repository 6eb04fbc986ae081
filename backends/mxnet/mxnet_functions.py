"""Single ops as MXNet's users call them: functions of mx.nd (mode `function`), or Gluon blocks (`layer`)."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from assay_worker import Node, Value
from mxnet import nd
from mxnet_network import KEPT, translate

Function = Callable[..., nd.NDArray]


def linear() -> Function:
    def run(x: nd.NDArray, weight: nd.NDArray, bias: nd.NDArray | None = None) -> nd.NDArray:
        units = weight.shape[0]
        return nd.FullyConnected(x, weight, bias, num_hidden=units, no_bias=bias is None, flatten=False)

    return run


def reduce(kind: str, axes: list[int]) -> Function:
    function, axis = {"sum": nd.sum, "mean": nd.mean, "max": nd.max}[kind], tuple(axes)
    return lambda x: function(x, axis=axis)


FUNCTIONS: dict[str, Callable[..., Function]] = {
    "add": lambda: nd.broadcast_add,
    "clamp": lambda least, most: lambda x: nd.clip(x, least, most),
    "concat": lambda axis: lambda *values: nd.concat(*values, dim=axis),
    "divide": lambda: nd.broadcast_div,
    "dot": lambda: nd.dot,
    "embedding": lambda sparse_gradient=False: lambda indices, weight: nd.take(weight, indices),
    "flatten": lambda: nd.flatten,
    "from_array": lambda in_list=False: nd.array,
    "from_list": lambda: nd.array,
    "leaky_relu": lambda slope: lambda x: nd.LeakyReLU(x, slope=slope),
    "linear": linear,
    "multiply": lambda: nd.broadcast_mul,
    "normalise": lambda axes, epsilon: (
        lambda x: x / nd.maximum(nd.norm(x, axis=tuple(axes), keepdims=True), epsilon)
    ),
    "reduce": reduce,
    "relu": lambda: nd.relu,
    "reshape": lambda shape: lambda x: nd.reshape(x, shape=tuple(shape)),
    "sigmoid": lambda: nd.sigmoid,
    "softmax": lambda: nd.softmax,
    "softplus": lambda: lambda x: nd.Activation(x, act_type="softrelu"),
    "softsign": lambda: nd.softsign,
    "subtract": lambda: nd.broadcast_sub,
    "tanh": lambda: nd.tanh,
    "transpose": lambda permutation: lambda x: nd.transpose(x, axes=tuple(permutation)),
}


class Bound:
    """A function of mx.nd with the operands of one slot."""

    def __init__(self, node: Node, held: dict[str, Any]) -> None:
        self._run = FUNCTIONS[node.op](**node.attributes)
        self._fed = [held[name] for name in node.inputs if name is not None]
        self._held = held

    def __call__(self) -> list[nd.NDArray]:
        return [self._run(*self._fed)]

    def gradient(self, name: str) -> nd.NDArray:
        """Of an operand, after the backward pass."""
        return self._held[name].grad


class Block:
    """A Gluon block with the operands of one slot: its parameters are copies of some of them."""

    def __init__(self, node: Node, values: dict[str, Value], held: dict[str, Any]) -> None:
        self._block = translate(node, values)
        self._block.initialize()
        kept = KEPT.get(node.op, ())
        fed = node.inputs[: len(node.inputs) - len(kept)]
        self._fed = [held[str(name)] for name in fed]
        self._parameters = {
            str(name): attrgetter(attribute)(self._block)
            for attribute, name in zip(kept, node.inputs[len(fed) :], strict=True)
            if name is not None
        }
        self._held = held
        for name, parameter in self._parameters.items():
            parameter.set_data(held[name])

    def __call__(self) -> list[nd.NDArray]:
        return [self._block(*self._fed)]

    def gradient(self, name: str) -> nd.NDArray:
        return self._parameters[name].grad() if name in self._parameters else self._held[name].grad
