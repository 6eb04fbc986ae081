"""graph.json as a functional Keras model, images in NHWC: the layout that TensorFlow trains in on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import keras
import numpy as np
from assay_worker import Program, Unsupported, Value
from keras import layers, ops

# The operands of a node that are values of the program, in order; None where one is absent.
Operands = list[Value | None]
Make = Callable[..., keras.Layer]


def _padded(layer: keras.Layer, padding: int, value: float = 0.0) -> Callable[[Any], Any]:
    if padding == 0:
        return layer
    if value == 0:
        pad = layers.ZeroPadding2D(padding)
        return lambda x: layer(pad(x))
    edges = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    return lambda x: layer(ops.pad(x, edges, constant_values=value))


class Builder:
    """Makes the layers of a program and remembers which of them keeps which parameter."""

    def __init__(self) -> None:
        self.kept: dict[str, keras.Variable] = {}
        self.as_it_is: set[str] = set()  # parameters that Keras lays out as the contract does
        self._pending: list[tuple[keras.Layer, list[tuple[str, str]]]] = []

    def keep(self, layer: keras.Layer, operands: Operands, attributes: tuple[str, ...]) -> keras.Layer:
        """Note that the operands after the first are variables of the layer, made when it is first called."""
        named = zip(operands[1:], attributes, strict=False)
        self._pending.append((layer, [(value.name, attribute) for value, attribute in named if value]))
        return layer

    def finish(self) -> None:
        for layer, pairs in self._pending:
            self.kept |= {name: attrgetter(attribute)(layer) for name, attribute in pairs}

    def convolution(self, operands: Operands, stride: int, padding: int) -> Callable[[Any], Any]:
        _, weight, bias = operands
        channels, _, *kernel = weight.shape
        same = stride == 1 and all(size == 2 * padding + 1 for size in kernel)
        layer = layers.Conv2D(
            channels, kernel, stride, "same" if same else "valid", use_bias=bias is not None
        )
        self.keep(layer, operands, ("kernel", "bias"))
        return _padded(layer, 0 if same else padding)

    def linear(self, operands: Operands) -> Callable[[Any], Any]:
        _, weight, bias = operands
        layer = layers.Dense(weight.shape[0], use_bias=bias is not None)
        return self.keep(layer, operands, ("kernel", "bias"))

    def average_pool(
        self, operands: Operands, kernel: int, stride: int, padding: int
    ) -> Callable[[Any], Any]:
        # Zeros laid around first are counted by the divisor.
        return _padded(layers.AveragePooling2D(kernel, stride), padding)

    def max_pool(self, operands: Operands, kernel: int, stride: int, padding: int) -> Callable[[Any], Any]:
        return _padded(layers.MaxPooling2D(kernel, stride), padding, -np.inf)

    def batch_norm(
        self, operands: Operands, epsilon: float, momentum: float, training: bool
    ) -> Callable[[Any], Any]:
        # Whether it trains is an argument of the model's call.
        layer = layers.BatchNormalization(momentum=momentum, epsilon=epsilon)
        return self.keep(layer, operands, ("gamma", "beta", "moving_mean", "moving_variance"))

    def add(self, operands: Operands) -> Callable[[Any, Any], Any]:
        layer = layers.Add()
        return lambda a, b: layer([a, b])

    def flatten(self, operands: Operands) -> Callable[[Any], Any]:
        # The contract flattens (C, H, W).
        def run(x: Any) -> Any:
            return layers.Flatten()(layers.Permute((3, 1, 2))(x) if len(x.shape) == 4 else x)

        return run

    def embedding(self, operands: Operands, sparse_gradient: bool = False) -> Callable[[Any], Any]:
        if sparse_gradient:
            raise Unsupported("[embedding] Keras writes row-sparse gradients out: --embedding-gradient dense")
        rows, width = operands[1].shape
        self.as_it_is.add(operands[1].name)
        return self.keep(layers.Embedding(rows, width), operands, ("embeddings",))

    def lstm(self, operands: Operands, last: bool) -> Callable[[Any], Any]:
        # Keras has the contract's order of gates: input, forget, candidate, output.
        layer = layers.LSTM(operands[2].shape[1], return_sequences=not last)
        return self.keep(layer, operands, ("cell.kernel", "cell.recurrent_kernel", "cell.bias"))

    def relu(self, operands: Operands) -> keras.Layer:
        return layers.ReLU()


OPS: dict[str, Callable[..., Callable[..., Any]]] = {
    "add": Builder.add,
    "average_pool": Builder.average_pool,
    "batch_norm": Builder.batch_norm,
    "convolution": Builder.convolution,
    "embedding": Builder.embedding,
    "flatten": Builder.flatten,
    "linear": Builder.linear,
    "lstm": Builder.lstm,
    "max_pool": Builder.max_pool,
    "relu": Builder.relu,
}
LOSS = "softmax_cross_entropy"


class Network:
    """The model from inputs (B, H, W, C), or tokens (B, T), to logits (B, classes), and its variables."""

    def __init__(self, program: Program) -> None:
        graph, builder = program.training, Builder()
        if graph.nodes[-1].op != LOSS:
            raise Unsupported(f"[{graph.nodes[-1].op}] the tensorflow adapter knows one loss, {LOSS}")
        fed = graph.values["inputs"]
        inputs = keras.Input(
            batch_shape=images_to_theirs(np.empty(fed.shape, np.bool_)).shape,
            dtype="int32" if fed.dtype == "i32" else "float32",
        )
        values: dict[str | None, Any] = {"inputs": inputs}
        for node in graph.nodes[:-1]:
            if node.op not in OPS:
                raise Unsupported(f"[{node.op}] the tensorflow adapter has no such op")
            operands = [graph.values.get(name) if name else None for name in node.inputs]
            try:
                layer = OPS[node.op](builder, operands, **node.attributes)
            except TypeError as error:
                raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error
            values[node.outputs[0]] = layer(*[values[name] for name in node.inputs if name in values])
        logits = layers.Activation("linear", dtype="float32")(values[graph.outputs["logits"]])
        builder.finish()
        self.model = keras.Model(inputs, logits)
        self.variables = builder.kept  # by the names of the graph
        self._as_it_is = builder.as_it_is

    def to_theirs(self, name: str, array: np.ndarray) -> np.ndarray:
        """Lay out a parameter or moment as Keras does: OIHW to HWIO, (out, in) to (in, out)."""
        if name in self._as_it_is:
            return array
        return np.transpose(array, (2, 3, 1, 0)) if array.ndim == 4 else array.T

    def to_ours(self, name: str, array: np.ndarray) -> np.ndarray:
        """Undo to_theirs()."""
        if name in self._as_it_is:
            return array
        return np.ascontiguousarray(np.transpose(array, (3, 2, 0, 1)) if array.ndim == 4 else array.T)


def images_to_theirs(batch: np.ndarray) -> np.ndarray:
    """NCHW to NHWC; anything else as it is."""
    return np.transpose(batch, (0, 2, 3, 1)) if batch.ndim == 4 else batch
