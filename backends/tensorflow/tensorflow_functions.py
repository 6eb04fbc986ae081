"""Single ops as TensorFlow's users call them: functions of tf (mode `function`), or Keras layers (`layer`).

Mode `tensordot` has the products of Paltenghi et al. 2020, whose scripts call tf.tensordot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import Graph, Node, images_to_theirs
from keras import layers
from tensorflow_network import Builder

Function = Callable[..., tf.Tensor]


def linear() -> Function:
    def run(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
        y = tf.matmul(x, weight)
        return y if bias is None else tf.nn.bias_add(y, bias)

    return run


def linear_by_tensordot() -> Function:
    def run(x: tf.Tensor, weight: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
        y = tf.tensordot(x, weight, 1)
        return y if bias is None else tf.nn.bias_add(y, bias)

    return run


def matmul(transpose_a: bool, transpose_b: bool) -> Function:
    return lambda a, b: tf.matmul(a, b, transpose_a, transpose_b)


def reduce(kind: str, axes: list[int]) -> Function:
    function = {"sum": tf.reduce_sum, "mean": tf.reduce_mean, "max": tf.reduce_max}[kind]
    return lambda x: function(x, axes)


constant = partial(tf.constant, dtype=tf.float32)
# A weight is (in, out), and any other operand has the contract's layout.
FUNCTIONS: dict[str, Callable[..., Function]] = {
    "add": lambda: tf.add,
    "clamp": lambda least, most: lambda x: tf.clip_by_value(x, least, most),
    "concat": lambda axis: lambda *values: tf.concat(values, axis),
    "divide": lambda: tf.divide,
    "dot": lambda: lambda a, b: tf.reduce_sum(a * b),
    "embedding": lambda sparse_gradient=False: lambda indices, weight: tf.gather(weight, indices),
    "flatten": lambda: lambda x: tf.reshape(x, (x.shape[0], -1)),
    "from_array": lambda in_list=False: constant,
    "from_list": lambda: constant,
    "gelu": lambda approximate: lambda x: tf.nn.gelu(x, approximate == "tanh"),
    "leaky_relu": lambda slope: lambda x: tf.nn.leaky_relu(x, slope),
    "linear": linear,
    "matmul": matmul,
    "multiply": lambda: tf.multiply,
    "normalise": lambda axes, epsilon: lambda x: tf.math.l2_normalize(x, axes, epsilon**2),
    "reduce": reduce,
    "relu": lambda: tf.nn.relu,
    "reshape": lambda shape: lambda x: tf.reshape(x, shape),
    "selu": lambda: tf.nn.selu,
    "sigmoid": lambda: tf.sigmoid,
    "silu": lambda: tf.nn.silu,
    "softmax": lambda: tf.nn.softmax,
    "softplus": lambda: tf.nn.softplus,
    "softsign": lambda: tf.nn.softsign,
    "subtract": lambda: tf.subtract,
    "tanh": lambda: tf.tanh,
    "transpose": lambda permutation: lambda x: tf.transpose(x, permutation),
}
TENSORDOT: dict[str, Callable[..., Function]] = {
    "dot": lambda: lambda a, b: tf.tensordot(a, b, 1),
    "linear": linear_by_tensordot,
}
OF_MODE = {"function": FUNCTIONS, "tensordot": TENSORDOT}
# Keras's layers for ops that are functions in a network; Builder makes those of the other ops.
ACTIVATIONS: dict[str, Callable[[], keras.Layer]] = {
    name: partial(layers.Activation, name)
    for name in ("relu", "sigmoid", "silu", "softmax", "softplus", "softsign", "tanh")
}
TYPES = {"f32": "float32", "i32": "int32", "u8": "uint8"}


class Bound:
    """A function of tf with the operands of one slot."""

    def __init__(self, mode: str, node: Node, held: dict[str, Any]) -> None:
        self._run = OF_MODE[mode][node.op](**node.attributes)
        self._fed = [held[name] for name in node.inputs if name is not None]
        self.sources = held  # of gradients, by name

    def __call__(self) -> tf.Tensor:
        return self._run(*self._fed)


class Layer:
    """A Keras layer with the operands of one slot: its variables hold some of them."""

    def __init__(self, graph: Graph, images: bool, held: dict[str, tf.Tensor]) -> None:
        (node,) = graph.nodes
        builder = Builder(graph, images)
        self._run = self._layer_of(node, graph, builder)
        kept = builder.awaited()
        fed = [str(name) for name in node.inputs if name is not None and name not in kept]
        if kept:
            values = [graph.values[name] for name in fed]
            shapes = [
                images_to_theirs(np.empty(v.shape, np.bool_)).shape if images else v.shape for v in values
            ]
            operands = zip(shapes, values, strict=True)
            self._run(*[keras.KerasTensor(shape, TYPES[value.dtype]) for shape, value in operands])
            builder.finish()
        for name, variable in builder.kept.items():
            variable.assign(held[name])
        self._fed = [held[name] for name in fed]
        self.sources: dict[str, Any] = held | {
            name: variable.value for name, variable in builder.kept.items()
        }

    def __call__(self) -> tf.Tensor:
        return self._run(*self._fed)

    @staticmethod
    def _layer_of(node: Node, graph: Graph, builder: Builder) -> Callable[..., tf.Tensor]:
        if node.op in ACTIVATIONS:
            layer: Callable[..., tf.Tensor] = ACTIVATIONS[node.op]()
            return layer
        return builder.translate(node, [graph.values.get(name) if name else None for name in node.inputs])
