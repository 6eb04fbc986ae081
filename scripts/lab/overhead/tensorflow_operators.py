"""Single operators as users of TensorFlow and Keras call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from clock import Calls, Loop
from keras import layers, ops
from operators import operands_of

# Keras's functions, TensorFlow's functions, and those that Paltenghi et al. 2020 called.
EAGER: dict[str, Callable[..., Any]] = {
    "op/sigmoid": ops.sigmoid,
    "op/relu": ops.relu,
    "op/tanh": ops.tanh,
    "op/softplus": ops.softplus,
    "op/softsign": ops.softsign,
    "op/dot": ops.dot,
    "op/flatten_matrix": lambda x: ops.reshape(x, (-1,)),
    "op/normalise": lambda x: x * ops.rsqrt(ops.maximum(ops.sum(ops.square(x), keepdims=True), 1e-24)),
    "op/from_array": lambda x: tf.constant(x, tf.float32),
    "op/from_list": lambda x: tf.constant(x, tf.float32),
    "op/from_rows": lambda x: tf.constant(x, tf.float32),
}
FUNCTION: dict[str, Callable[..., Any]] = {
    "op/sigmoid": tf.sigmoid,
    "op/relu": tf.nn.relu,
    "op/tanh": tf.tanh,
    "op/softplus": tf.nn.softplus,
    "op/softsign": tf.nn.softsign,
    "op/dot": lambda a, b: tf.reduce_sum(a * b),
    "op/gemm": tf.matmul,
    "op/flatten_matrix": lambda x: tf.reshape(x, (-1,)),
    "op/normalise": lambda x: tf.math.l2_normalize(x, epsilon=1e-24),
    "op/from_array": lambda x: tf.constant(x, tf.float32),
    "op/from_list": lambda x: tf.constant(x, tf.float32),
    "op/from_rows": lambda x: tf.constant(x, tf.float32),
}
TENSORDOT: dict[str, Callable[..., Any]] = {
    name: lambda a, b: tf.tensordot(a, b, 1) for name in ("op/dot", "op/gemm")
}
LAYERS: dict[str, Callable[[], keras.Layer]] = {
    f"op/{name}": lambda name=name: layers.Activation(name)
    for name in ("sigmoid", "relu", "tanh", "softplus", "softsign")
} | {"op/gemm": lambda: layers.Dense(50, use_bias=False)}
FUNCTIONS = {"eager": EAGER, "function": FUNCTION, "tensordot": TENSORDOT}


def operator(name: str, mode: str) -> Loop:
    given = operands_of(name)
    if name == "op/gemm":
        given[1] = given[1].T  # (in, out)
    held = given if name.startswith("op/from_") else [tf.constant(operand) for operand in given]
    if mode == "layer" or name not in FUNCTIONS[mode]:
        layer = LAYERS[name]()
        layer(held[0])
        layer.set_weights(held[1:])
        call: Callable[[], Any] = lambda: layer(held[0])  # noqa: E731
    else:
        function = FUNCTIONS[mode][name]
        call = lambda: function(*held)  # noqa: E731
    return Calls(call, lambda result: float(tf.reduce_sum(result)))
