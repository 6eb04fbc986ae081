"""Single operators as users of MXNet call them: functions of mx.nd, or blocks of Gluon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clock import Calls, Loop
from mxnet import gluon, nd
from mxnet.gluon import nn
from operators import operands_of

FUNCTION: dict[str, Callable[..., nd.NDArray]] = {
    "op/sigmoid": nd.sigmoid,
    "op/relu": nd.relu,
    "op/tanh": nd.tanh,
    "op/softplus": lambda x: nd.Activation(x, act_type="softrelu"),
    "op/softsign": nd.softsign,
    "op/dot": nd.dot,
    "op/gemm": lambda x, weight: nd.FullyConnected(x, weight, num_hidden=50, no_bias=True, flatten=False),
    "op/flatten_matrix": lambda x: nd.reshape(x, shape=(-1,)),
    "op/normalise": lambda x: x / nd.maximum(nd.norm(x, keepdims=True), 1e-12),
    "op/from_array": nd.array,
    "op/from_list": nd.array,
    "op/from_rows": nd.array,
}
LAYERS: dict[str, Callable[[], gluon.Block]] = {
    "op/sigmoid": lambda: nn.Activation("sigmoid"),
    "op/relu": lambda: nn.Activation("relu"),
    "op/tanh": lambda: nn.Activation("tanh"),
    "op/softplus": lambda: nn.Activation("softrelu"),
    "op/softsign": lambda: nn.Activation("softsign"),
    "op/gemm": lambda: nn.Dense(50, use_bias=False, flatten=False, in_units=50),
}


def operator(name: str, mode: str) -> Loop:
    given = operands_of(name)
    held: list[Any] = given if name.startswith("op/from_") else [nd.array(operand) for operand in given]
    if mode == "layer":
        block = LAYERS[name]()
        block.initialize()
        if held[1:]:
            block.weight.set_data(held[1])
        return Calls(lambda: block(held[0]), lambda result: float(result.sum().asscalar()))
    function = FUNCTION[name]
    return Calls(lambda: function(*held), lambda result: float(result.sum().asscalar()))
