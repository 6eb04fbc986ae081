"""graph.json as a functional Keras model, images in NHWC: the layout that TensorFlow trains in on a CPU."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from assay_worker import (
    ChannelsLast,
    Graph,
    Node,
    Numbers,
    Program,
    Sides,
    Unsupported,
    Value,
    elements_inside,
    held_operands,
    images_to_theirs,
    pair,
    required,
    sides,
    values_of_heads,
)
from keras import layers, ops

MASKED = -1e38  # in place of -inf; less by far than any product of a query and a key

# The operands of a node that are values of the program, in order; None for an absent operand.
Operands = list[Value | None]
Call = Callable[..., Any]


def _padded(layer: keras.Layer, padding: Numbers, value: float = 0.0) -> Call:
    if padding == 0:
        return layer
    if value == 0:
        pad = layers.ZeroPadding2D(sides(padding))
        return lambda x: layer(pad(x))
    edges = ((0, 0), *sides(padding), (0, 0))
    return lambda x: layer(ops.pad(x, edges, constant_values=value))


def _same(image: Sequence[int], kernel: tuple[int, int], stride: tuple[int, int]) -> Sides:
    """Return how TensorFlow pads with "same"."""
    totals = [
        max((-(-extent // step) - 1) * step + size - extent, 0)
        for extent, size, step in zip(image, kernel, stride, strict=True)
    ]
    rows, columns = ((total // 2, total - total // 2) for total in totals)
    return rows, columns


def _of_image(make: Callable[[tuple[int, int]], Call]) -> Call:
    """Make a call of images (N, H, W, C) when it meets the first, whose size it needs."""
    made: list[Call] = []

    def run(x: Any) -> Any:
        if not made:
            made.append(make((x.shape[1], x.shape[2])))
        return made[0](x)

    return run


class Table(keras.Layer):
    """A parameter that no layer of Keras keeps, such as learned positions, or a constant: its result is that.

    Keras needs an operand to call a layer, here any tensor of the model.
    """

    def __init__(self, shape: tuple[int, ...], dtype: str | None = None) -> None:
        super().__init__(dtype=dtype)
        self.table = self.add_weight(shape=shape, name="table")

    def call(self, anchor: Any) -> Any:
        return ops.convert_to_tensor(self.table)

    def compute_output_spec(self, anchor: Any) -> keras.KerasTensor:
        return keras.KerasTensor(self.table.shape, self.compute_dtype)


class LocalResponseNorm(keras.Layer):
    """Keras has none; it is an op of TensorFlow."""

    def __init__(self, size: int, alpha: float, beta: float, bias: float) -> None:
        super().__init__()
        self._arguments = (size // 2, bias, alpha / size, beta)

    def call(self, x: Any) -> Any:
        wide = tf.cast(x, tf.float32)  # sums and powers in fp32
        return tf.cast(tf.nn.local_response_normalization(wide, *self._arguments), x.dtype)


class Prelu(keras.Layer):
    """In fp32, as its slopes are. Keras's own has slopes of the shape of a sample, and no gradient at 0.

    `axes_of` says where the channels of an operand lie.
    """

    def __init__(self, slopes: int, axes_of: Callable[[Any, list[int]], list[int]]) -> None:
        super().__init__(dtype="float32", autocast=False)
        self._axes_of = axes_of
        self.slope = self.add_weight(shape=(slopes,), name="slope")

    def call(self, x: Any) -> Any:
        (channels,) = self._axes_of(x, [1])
        shape = [-1 if axis == channels else 1 for axis in range(len(x.shape))]
        wide = ops.cast(x, "float32")
        y = ops.where(wide > 0, wide, ops.reshape(self.slope, shape) * wide)
        return ops.cast(y, x.dtype)


class Dropout(keras.Layer):
    """Keras's own dropout, but it can take masks: as a second operand, or supplied for training."""

    def __init__(self, rate: float, seed: int) -> None:
        super().__init__()
        self._draw = layers.Dropout(rate, seed=seed)
        self._scale = 1 / (1 - rate)
        self.supplied: Any = None

    def begin_again(self, seed: int) -> None:
        """Let its generator begin from a seed: Keras counts the draws in the second of two numbers."""
        self._draw.seed_generator.state.assign([seed, 0])

    def call(self, x: Any, kept: Any = None, training: bool = False) -> Any:
        if kept is None and (self.supplied is None or not training):
            return self._draw(x, training=training)
        kept = self.supplied if kept is None else kept
        return x * ops.cast(kept != 0, x.dtype) * self._scale


class Builder:
    """Makes the layers of a program and records which layer keeps which parameter.

    With `images_last` each tensor of four dimensions is an image: (N, C, H, W) in the contract, stored as
    (N, H, W, C). Sequences by heads stay as they are. `dtype` is that of the layers whose parameters the
    policy casts in each call, and so of their variables; None: that of the policy. Norms have the policy's.
    """

    def __init__(
        self, graph: Graph, images_last: bool = True, seed: int = 1, dtype: str | None = None
    ) -> None:
        self._graph = graph
        self._dtype = dtype
        self._of_heads = values_of_heads(graph)
        self._takes_heads = self._makes_heads = False  # of the node that is translated
        self._held: tuple[bool, ...] = (False, False)
        self.kept: dict[str, keras.Variable] = {}
        self.layout = ChannelsLast()
        self.dropouts: list[Dropout] = []
        self._images_last = images_last
        self._seed = seed
        self._pending: list[tuple[keras.Layer, list[tuple[str, str]]]] = []

    def translate(self, node: Node, operands: Operands) -> Call:
        """Raise Unsupported when TensorFlow's adapter has no such op, or not with these attributes."""
        if node.op not in OPS:
            raise Unsupported(f"[{node.op}] the tensorflow adapter has no such op")
        node_builder = copy.copy(self)  # it records in the same collections
        node_builder._takes_heads = node.inputs[0] in self._of_heads
        node_builder._makes_heads = node.outputs[0] in self._of_heads
        node_builder._held = held_operands(self._graph, node)
        try:
            return OPS[node.op](node_builder, operands, **node.attributes)
        except TypeError as error:
            raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error

    def keep(self, layer: keras.Layer, operands: Operands, attributes: tuple[str, ...]) -> keras.Layer:
        """Record that the operands after the first are variables of the layer, made at its first call."""
        named = zip(operands[1:], attributes, strict=False)
        self._pending.append((layer, [(value.name, attribute) for value, attribute in named if value]))
        return layer

    def table(self, value: Value) -> Table:
        """Make a layer for a parameter or a constant that is an ordinary operand."""
        layer = Table(value.shape, self._dtype)
        self._pending.append((layer, [(value.name, "table")]))
        self.layout.as_it_is.add(value.name)
        return layer

    def is_shared(self, value: Value) -> bool:
        """Whether a weight is a parameter or a constant that other nodes read, too."""
        return value.role in HELD and self._graph.reads_of(value.name) > 1

    def awaited(self) -> set[str]:
        """The names of the values that layers will keep."""
        return {name for _, pairs in self._pending for name, _ in pairs}

    def finish(self) -> None:
        for layer, pairs in self._pending:
            self.kept |= {name: attrgetter(attribute)(layer) for name, attribute in pairs}

    def axes(self, x: Any, axes: list[int]) -> list[int]:
        """The positions of the contract's dimensions in x."""
        return [(0, 3, 1, 2)[axis] for axis in axes] if self._is_image(x) else axes

    def ours(self, x: Any) -> Any:
        return ops.transpose(x, (0, 3, 1, 2)) if self._is_image(x) else x

    def theirs(self, x: Any) -> Any:
        image = self._images_last and not self._makes_heads and len(x.shape) == 4
        return ops.transpose(x, (0, 2, 3, 1)) if image else x

    def _is_image(self, x: Any) -> bool:
        return self._images_last and not self._takes_heads and len(x.shape) == 4

    def activate(self, node: Node) -> None:
        """Let the layer that was made last, of this node, end with a ReLU, as users of Keras write it."""
        layer, pairs = self._pending[-1]
        assert any(name == node.inputs[1] for name, _ in pairs)
        layer.activation = keras.activations.relu

    def convolution(
        self, operands: Operands, stride: Numbers, padding: Numbers, dilation: Numbers = 1, groups: int = 1
    ) -> Call:
        _, weight, bias = operands
        channels, of_group, *kernel = required(weight).shape
        strides, dilations = pair(stride), pair(dilation)
        if max(strides) > 1 and max(dilations) > 1:
            raise Unsupported("[convolution] Keras has no stride together with a dilation")
        axes = zip(kernel, dilations, sides(padding), strict=True)
        same = strides == (1, 1) and all(set(pads) == {d * (k - 1) / 2} for k, d, pads in axes)
        settings = {
            "strides": strides,
            "padding": "same" if same else "valid",
            "dilation_rate": dilations,
            "use_bias": bias is not None,
            "dtype": self._dtype,
        }
        # TensorFlow's kernel for one channel in each group has one stride.
        if of_group == 1 and groups > 1 and strides[0] == strides[1]:
            layer = layers.DepthwiseConv2D(kernel, depth_multiplier=channels // groups, **settings)
            self.layout.groups[required(weight).name] = groups
        else:
            layer = layers.Conv2D(channels, kernel, groups=groups, **settings)
        self.keep(layer, operands, ("kernel", "bias"))
        return _padded(layer, 0 if same else padding)

    def linear(self, operands: Operands) -> Call:
        _, weight, bias = operands
        if self.is_shared(required(weight)):
            return self.tied_linear
        layer = layers.Dense(required(weight).shape[0], use_bias=bias is not None, dtype=self._dtype)
        return self.keep(layer, operands, ("kernel", "bias"))

    def tied_linear(self, x: Any, weight: Any, bias: Any = None) -> Any:
        x, weight = (ops.cast(value, compute_type()) for value in (x, weight))
        y = ops.matmul(x, ops.transpose(weight))
        return y if bias is None else y + ops.cast(bias, compute_type())

    def average_pool(
        self,
        operands: Operands,
        kernel: Numbers,
        stride: Numbers,
        padding: Numbers,
        count_padding: bool = True,
    ) -> Call:
        window = pair(kernel), pair(stride)
        if count_padding:
            # The divisor counts zeros that are padded before, and not those of "same".
            return _padded(layers.AveragePooling2D(*window), padding)

        def make(image: tuple[int, int]) -> Call:
            if _same(image, *window) == sides(padding):
                return layers.AveragePooling2D(*window, "same")
            mean = _padded(layers.AveragePooling2D(*window), padding)
            inside = elements_inside(image, kernel, stride, padding)[..., np.newaxis]

            def run(x: Any) -> Any:
                y = mean(x)
                return y * ops.cast(math.prod(window[0]) / inside, y.dtype)

            return run

        return _of_image(make)

    def max_pool(self, operands: Operands, kernel: Numbers, stride: Numbers, padding: Numbers) -> Call:
        window = pair(kernel), pair(stride)
        if padding == 0:
            return layers.MaxPooling2D(*window)

        def make(image: tuple[int, int]) -> Call:
            if _same(image, *window) == sides(padding):
                return layers.MaxPooling2D(*window, "same")
            return _padded(layers.MaxPooling2D(*window), padding, -np.inf)

        return _of_image(make)

    def batch_norm(self, operands: Operands, epsilon: float, momentum: float, training: bool) -> Call:
        # An argument of the model's call decides whether this is training.
        layer = layers.BatchNormalization(momentum=momentum, epsilon=epsilon)
        return self.keep(layer, operands, ("gamma", "beta", "moving_mean", "moving_variance"))

    def prelu(self, operands: Operands) -> Call:
        return self.keep(Prelu(required(operands[1]).shape[0], self.axes), operands, ("slope",))

    def flatten(self, operands: Operands) -> Call:
        # The contract flattens (C, H, W).
        flatten, permute = layers.Flatten(), layers.Permute((3, 1, 2))
        return lambda x: flatten(permute(x) if self._images_last and len(x.shape) == 4 else x)

    def flatten_as_it_lies(self, image: Any, weights: list[str]) -> Call:
        """Flatten an image without moving it: the rows of the weights that multiply it have its order."""
        _, height, width, channels = image.shape
        self.layout.rows |= dict.fromkeys(weights, (channels, height, width))
        return layers.Flatten()

    def embedding(self, operands: Operands, sparse_gradient: bool = False) -> Call:
        weight = required(operands[1])
        if self.is_shared(weight):
            return lambda tokens, table: ops.take(table, tokens, axis=0)
        rows, width = weight.shape
        self.layout.as_it_is.add(weight.name)
        return self.keep(layers.Embedding(rows, width, dtype=self._dtype), operands, ("embeddings",))

    def lstm(self, operands: Operands, last: bool) -> Call:
        # Keras has the contract's order of gates: input, forget, candidate, output.
        layer = layers.LSTM(required(operands[2]).shape[1], return_sequences=not last, dtype=self._dtype)
        return self.keep(layer, operands, ("cell.kernel", "cell.recurrent_kernel", "cell.bias"))

    def dropout(self, operands: Operands, rate: float) -> Call:
        layer = Dropout(rate, self._seed + len(self.dropouts))
        self.dropouts.append(layer)
        return layer

    def concat(self, operands: Operands, axis: int) -> Call:
        return lambda *values: ops.concatenate(values, self.axes(values[0], [axis])[0])

    def matmul(self, operands: Operands, transpose_a: bool, transpose_b: bool) -> Call:
        def run(a: Any, b: Any) -> Any:
            a, b = (ops.cast(self.ours(value), compute_type()) for value in (a, b))
            a = ops.swapaxes(a, -1, -2) if transpose_a else a
            return self.theirs(ops.matmul(a, ops.swapaxes(b, -1, -2) if transpose_b else b))

        return run

    def normalise(self, operands: Operands, axes: list[int], epsilon: float) -> Call:
        # The bound is on the square, not on the root: the root has no gradient at zero.
        def run(x: Any) -> Any:
            squares = ops.sum(ops.square(x), self.axes(x, axes), keepdims=True)
            return x * ops.rsqrt(ops.maximum(squares, epsilon**2))

        return run

    def reduce(self, operands: Operands, kind: str, axes: list[int]) -> Call:
        function = {"sum": ops.sum, "mean": ops.mean, "max": ops.max}[kind]
        return lambda x: function(x, self.axes(x, axes))

    def reshape(self, operands: Operands, shape: list[int]) -> Call:
        return lambda x: self.theirs(ops.reshape(self.ours(x), shape))

    def slice(self, operands: Operands, axis: int, begin: int, end: int) -> Call:
        def run(x: Any) -> Any:
            shown = [slice(None)] * len(x.shape)
            shown[self.axes(x, [axis])[0]] = slice(begin, end)
            return x[tuple(shown)]

        return run

    def softmax(self, operands: Operands) -> Call:
        return lambda x: ops.softmax(x, self.axes(x, [len(x.shape) - 1])[0])

    def binary(self, operands: Operands, function: Call) -> Call:
        """A function of two operands that broadcast by the contract's dimensions, the last ones first."""

        def run(a: Any, b: Any) -> Any:
            a, b = (self.theirs(x) if held else x for x, held in zip((a, b), self._held, strict=True))
            if len(a.shape) == len(b.shape):
                return function(a, b)
            return self.theirs(function(self.ours(a), self.ours(b)))

        return run

    def layer_norm(self, operands: Operands, epsilon: float) -> Call:
        return self.keep(layers.LayerNormalization(epsilon=epsilon), operands, ("gamma", "beta"))

    def rms_norm(self, operands: Operands, epsilon: float) -> Call:
        return self.keep(layers.RMSNormalization(epsilon=epsilon), operands, ("scale",))

    def gelu(self, operands: Operands, approximate: str) -> Call:
        return lambda x: ops.gelu(x, approximate=approximate == "tanh")

    def leaky_relu(self, operands: Operands, slope: float) -> Call:
        return lambda x: ops.leaky_relu(x, slope)

    def elu(self, operands: Operands, alpha: float) -> Call:
        return lambda x: ops.elu(x, alpha)

    def clamp(self, operands: Operands, least: float, most: float) -> Call:
        return ops.relu6 if (least, most) == (0, 6) else lambda x: ops.clip(x, least, most)

    def hard_sigmoid(self, operands: Operands, alpha: float, beta: float) -> Call:
        if (alpha, beta) == (1 / 6, 0.5):
            return ops.hard_sigmoid
        return lambda x: ops.clip(alpha * x + beta, 0, 1)

    def attention(self, operands: Operands, causal: bool, scale: float) -> Call:
        def run(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
            q, k, v = (ops.cast(x, compute_type()) for x in (q, k, v))
            (_, queries, heads, _), (_, keys, groups, _) = q.shape, k.shape
            if groups == 1 < heads:  # Keras repeats all numbers of groups but this one
                k, v = (ops.repeat(x, heads, axis=2) for x in (k, v))
            seen = np.tri(queries, keys, keys - queries, dtype=np.bool_)[None, None]
            y = ops.dot_product_attention(
                *(q, k, v),
                # A row of -inf would give NaN.
                bias=None if mask is None else ops.maximum(mask, MASKED),
                # Keras's own causal mask aligns the first query with the first key.
                mask=seen if causal and queries != keys else None,
                scale=scale or None,
                is_causal=causal and queries == keys,
            )
            if mask is None and not (causal and queries > keys):
                return y
            # A query that sees no key gets zeros.
            if mask is None:
                some = seen.any(-1)
            else:
                open_keys = ops.greater(mask, -np.inf)
                some = ops.any(ops.logical_and(open_keys, seen) if causal else open_keys, axis=-1)
            return y * ops.cast(ops.expand_dims(ops.swapaxes(some, 1, 2), -1), y.dtype)

        return run

    def rotary(self, operands: Operands, base: float, interleaved: bool, inverse: bool = False) -> Call:
        def run(x: Any) -> Any:
            _, length, _, width = x.shape
            angles = np.outer(np.arange(length), base ** -(np.arange(0, width, 2) / width))[:, None]
            cos, sin = (turn(angles).astype(np.float32) for turn in (np.cos, np.sin))
            sin = -sin if inverse else sin
            wide = ops.cast(x, "float32")
            a, b = (wide[..., ::2], wide[..., 1::2]) if interleaved else ops.split(wide, 2, axis=-1)
            parts = [a * cos - b * sin, a * sin + b * cos]
            turned = ops.concatenate(parts, -1)
            if interleaved:
                turned = ops.reshape(ops.stack(parts, -1), x.shape)
            return ops.cast(turned, x.dtype)

        return run

    def padding_mask(self, operands: Operands, padding: int) -> Call:
        def run(tokens: Any) -> Any:
            mask = ops.where(ops.equal(tokens, padding), -np.inf, 0.0)
            return ops.cast(mask, "float32")[:, None, None]

        return run

    def mean_pool(self, operands: Operands) -> Call:
        def run(x: Any, mask: Any = None) -> Any:
            if mask is None:
                return ops.mean(x, 1)
            counted = ops.expand_dims(ops.cast(ops.greater(mask[:, 0, 0], -np.inf), x.dtype), -1)
            return ops.sum(x * counted, 1) / ops.maximum(ops.sum(counted, 1), 1)

        return run

    def softmax_cross_entropy(self, operands: Operands, ignored: int | None = None) -> Call:
        loss_of = loss(ignored)
        return lambda logits, labels: loss_of(labels, logits)

    def transpose(self, operands: Operands, permutation: list[int]) -> Call:
        return lambda x: self.theirs(ops.transpose(self.ours(x), permutation))

    def function(self, operands: Operands, function: Call, in_list: bool = False) -> Call:
        """An op that is elementwise, or that does not depend on layouts."""
        return function


def compute_type() -> str:
    """The type of the precision policy, which a function that is not a layer has to apply itself."""
    return str(keras.mixed_precision.dtype_policy().compute_dtype)


def loss(ignored: int | None) -> keras.losses.Loss:
    """Return the mean loss over all labels but those that are ignored."""
    # Keras's default divides by the number of all labels.
    reduction = "sum_over_batch_size" if ignored is None else "mean_with_sample_weight"
    return keras.losses.SparseCategoricalCrossentropy(True, ignored, reduction=reduction)


def function(of_keras: Call) -> Callable[..., Call]:
    return partial(Builder.function, function=of_keras)


def binary(of_two: Call) -> Callable[..., Call]:
    return partial(Builder.binary, function=of_two)


OPS: dict[str, Callable[..., Call]] = {
    "add": binary(operator.add),
    "attention": Builder.attention,
    "average_pool": Builder.average_pool,
    "batch_norm": Builder.batch_norm,
    "clamp": Builder.clamp,
    "concat": Builder.concat,
    "convolution": Builder.convolution,
    "divide": binary(operator.truediv),
    "dot": function(ops.dot),
    "dropout": Builder.dropout,
    "elu": Builder.elu,
    "embedding": Builder.embedding,
    "flatten": Builder.flatten,
    "from_array": function(partial(tf.constant, dtype=tf.float32)),
    "from_list": function(partial(tf.constant, dtype=tf.float32)),
    "gelu": Builder.gelu,
    "hard_sigmoid": Builder.hard_sigmoid,
    "hard_swish": function(ops.hard_silu),
    "layer_norm": Builder.layer_norm,
    "leaky_relu": Builder.leaky_relu,
    "linear": Builder.linear,
    "lstm": Builder.lstm,
    "local_response_norm": lambda builder, operands, **attributes: LocalResponseNorm(**attributes),
    "matmul": Builder.matmul,
    "max_pool": Builder.max_pool,
    "mean_pool": Builder.mean_pool,
    "multiply": binary(operator.mul),
    "normalise": Builder.normalise,
    "padding_mask": Builder.padding_mask,
    "prelu": Builder.prelu,
    "reduce": Builder.reduce,
    "relu": function(ops.relu),
    "reshape": Builder.reshape,
    "rms_norm": Builder.rms_norm,
    "rotary": Builder.rotary,
    "selu": function(ops.selu),
    "sigmoid": function(ops.sigmoid),
    "silu": function(ops.silu),
    "slice": Builder.slice,
    "softmax": Builder.softmax,
    "softmax_cross_entropy": Builder.softmax_cross_entropy,
    "softplus": function(ops.softplus),
    "softsign": function(ops.softsign),
    "subtract": binary(operator.sub),
    "tanh": function(ops.tanh),
    "transpose": Builder.transpose,
}
# For these ops Keras has its own layout of images, NHWC.
IMAGE_OPS = {"average_pool", "batch_norm", "convolution", "local_response_norm", "max_pool", "prelu"}
# Keras's layers for these ops have an activation of their own.
ACTIVATED = ("convolution", "linear")
LOSS = "softmax_cross_entropy"


# The roles of what a program keeps. A state that no batch norm updates is a constant.
HELD = ("parameter", "state")


def is_held(program: Program, name: str) -> bool:
    value = program.inference.values.get(name)
    return value is not None and value.role in HELD


class Network:
    """The model from inputs (B, H, W, C), or tokens (B, T), to logits (..., classes), and its variables.

    Without training, the parameters that the policy casts in each call are cast when they are set.
    """

    def __init__(self, program: Program, task: str, seed: int = 1) -> None:
        graph, trains = program.graph(task), task == "train"
        builder = Builder(graph, seed=seed, dtype=None if trains else compute_type())
        if trains and graph.nodes[-1].op != LOSS:
            raise Unsupported(f"[{graph.nodes[-1].op}] the tensorflow adapter knows one loss, {LOSS}")
        fed = graph.values["inputs"]
        inputs = keras.Input(
            batch_shape=images_to_theirs(np.empty(fed.shape, np.bool_)).shape,
            dtype="int32" if fed.dtype == "i32" else "float32",
        )
        values: dict[str | None, Any] = {"inputs": inputs}
        dropped = []
        activated: set[str | None] = set()  # results of layers that end with their ReLU
        for node in graph.nodes[:-1] if trains else graph.nodes:
            if node.op == "relu" and node.inputs[0] in activated:
                values[node.outputs[0]] = values[node.inputs[0]]
                continue
            operands = [graph.values.get(name) if name else None for name in node.inputs]
            image = values.get(node.inputs[0]) if node.op == "flatten" else None
            if image is not None and len(image.shape) == 4 and graph.feeds_only(node, "linear"):
                run = builder.flatten_as_it_lies(image, [str(r.inputs[1]) for r in graph.readers(node)])
            else:
                run = builder.translate(node, operands)
            for value in operands:
                if value and value.role in HELD and value.name not in builder.awaited():
                    values[value.name] = builder.table(value)(inputs)
            if node.op in ACTIVATED and graph.feeds_only(node, "relu"):
                builder.activate(node)
                activated.add(node.outputs[0])
            values[node.outputs[0]] = run(*[values[name] for name in node.inputs if name in values])
            if node.op == "dropout":
                dropped += [values[node.inputs[0]], values[node.outputs[0]]]
        logits = values[graph.outputs["logits"]]
        if keras.mixed_precision.dtype_policy().compute_dtype != "float32":
            logits = layers.Activation("linear", dtype="float32")(logits)
        builder.finish()
        self.model = keras.Model(inputs, logits)
        self.variables = builder.kept  # by the names of the graph
        for value in graph.with_role("state"):
            self.variables[value.name].trainable = False
        self.dropouts = builder.dropouts  # in the order of the program's masks
        # The operand and the result of each dropout.
        self.dropped = keras.Model(inputs, dropped) if dropped else None
        self.layout = builder.layout
        self._logits = graph.outputs["logits"]
        self._parts = self._parts_of(program, values) if program.segments else []

    def train(self, inputs: Any) -> Any:
        """Return the logits in training mode; the backward pass computes the program's segments again."""
        if not self._parts:
            return self.model(inputs, training=True)
        values = {"inputs": inputs}
        for run, reads, gives in self._parts:
            found = run(*[values[name] for name in reads])
            # tf.recompute_grad returns a single result without its list.
            values.update(zip(gives, found if isinstance(found, list | tuple) else [found], strict=True))
        return ops.cast(values[self._logits], "float32")

    @staticmethod
    def _parts_of(program: Program, values: dict[str | None, Any]) -> list[tuple[Call, list[str], list[str]]]:
        """Return the parts of the model as functions of the values that they read to those that they give."""
        parts = []
        for part in program.training_parts():
            gives = [name for name in part.gives if name in values]  # without the loss
            if not gives:
                continue
            # A part that reads a held value as an operand makes it again, from the inputs (see Table).
            fed = {
                "inputs" if is_held(program, name) else name: None for name in part.reads if name in values
            }
            model = keras.Model([values[name] for name in fed], [values[name] for name in gives])

            def run(*operands: Any, model: keras.Model = model) -> list[Any]:
                return model(list(operands), training=True)

            parts.append((tf.recompute_grad(run) if part.again else run, list(fed), gives))
        return parts
