"""graph.json as a pure function: one function per op, walked in the order of the graph.

Images are (N, H, W, C), kernels (H, W, I, O) and weights (in, out), as in Flax. With the layout
`channels_first` all have the contract's layout.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from assay_worker import (
    BROADCASTING_OPS,
    CAST,
    ChannelsLast,
    Graph,
    Node,
    Numbers,
    Program,
    Unsupported,
    elements_inside,
    held_operands,
    images_to_theirs,
    last_reads,
    names_read,
    pair,
    sides,
    values_of_heads,
    with_casts,
)
from jax import Array, lax

MASKED = -1e38  # in place of -inf; less by far than any product of a query and a key

# Returns the node's first result, or a tuple of all its results.
Op = Callable[..., Any]
Values = dict[str, Array]


def as_type(x: Array, dtype: jnp.dtype) -> Array:
    """x in a type. In eager mode even a cast to the same type costs 10 us or more."""
    return x if x.dtype == dtype else x.astype(dtype)


@dataclass(frozen=True)
class Form:
    """The type of matrix products and the layout of arrays.

    With `images_last` each array of four dimensions is an image: (N, C, H, W) in the contract, stored as
    (N, H, W, C). A node whose operands or result are sequences by heads, which stay as they are, has a form
    that says so.
    """

    compute: jnp.dtype
    images_last: bool = True
    inputs_first: bool = True  # weights are (in, out)
    takes_heads: bool = False
    makes_heads: bool = False
    held: tuple[bool, ...] = (False, False)  # of two operands, which are parameters in the contract's layout

    @property
    def images(self) -> tuple[str, str, str]:
        return ("NHWC", "HWIO", "NHWC") if self.images_last else ("NCHW", "OIHW", "NCHW")

    @property
    def pixels(self) -> tuple[int, int]:
        """The dimensions of height and width."""
        return (1, 2) if self.images_last else (2, 3)

    def of_channels(self, vector: Array) -> Array:
        """One number per channel, in a shape that broadcasts over an image."""
        return vector if self.images_last else vector[:, None, None]

    def of_pixels(self, matrix: np.ndarray) -> np.ndarray:
        """One number per pixel, in a shape that broadcasts over an image."""
        return matrix[..., None] if self.images_last else matrix

    def cast(self, x: Array) -> Array:
        """x in the type of the products."""
        return as_type(x, self.compute)

    def matrix(self, weight: Array) -> Array:
        """A weight as (in, out) in the type of the products."""
        return self.cast(self.turned(weight))

    def turned(self, weight: Array) -> Array:
        """A weight as (in, out)."""
        return weight if self.inputs_first else weight.T

    def axes(self, x: Array, axes: list[int]) -> tuple[int, ...]:
        """The positions of the contract's dimensions in x."""
        return tuple((0, 3, 1, 2)[axis] for axis in axes) if self._is_image(x) else tuple(axes)

    def ours(self, x: Array) -> Array:
        return x.transpose(0, 3, 1, 2) if self._is_image(x) else x

    def theirs(self, x: Array) -> Array:
        return x.transpose(0, 2, 3, 1) if self.images_last and not self.makes_heads and x.ndim == 4 else x

    def _is_image(self, x: Array) -> bool:
        return self.images_last and not self.takes_heads and x.ndim == 4


def convolution(
    stride: Numbers, padding: Numbers, dilation: Numbers = 1, groups: int = 1, *, form: Form
) -> Op:
    def run(x: Array, weight: Array, bias: Array | None) -> Array:
        y = lax.conv_general_dilated(
            form.cast(x),
            form.cast(weight),
            pair(stride),
            sides(padding),
            rhs_dilation=pair(dilation),
            dimension_numbers=form.images,
            feature_group_count=groups,
        )
        return y if bias is None else y + form.of_channels(form.cast(bias))

    return run


def linear(*, form: Form) -> Op:
    def run(x: Array, weight: Array, bias: Array | None) -> Array:
        y = form.cast(x) @ form.matrix(weight)
        return y if bias is None else y + form.cast(bias)

    return run


def _pool(
    x: Array, start: float, combine: Op, kernel: Numbers, stride: Numbers, padding: Numbers, *, form: Form
) -> Array:
    window, strides, padded = [1] * 4, [1] * 4, [(0, 0)] * 4
    for axis, size, step, pads in zip(form.pixels, pair(kernel), pair(stride), sides(padding), strict=True):
        window[axis], strides[axis], padded[axis] = size, step, pads
    return lax.reduce_window(x, np.array(start, x.dtype), combine, window, strides, padded)


def average_pool(
    kernel: Numbers, stride: Numbers, padding: Numbers, count_padding: bool = True, *, form: Form
) -> Op:
    elements = math.prod(pair(kernel))

    def run(x: Array) -> Array:
        sums = _pool(x, 0, lax.add, kernel, stride, padding, form=form)
        if count_padding:
            return sums / elements
        rows, columns = form.pixels
        inside = elements_inside((x.shape[rows], x.shape[columns]), kernel, stride, padding)
        return sums / form.of_pixels(inside).astype(sums.dtype)

    return run


def local_response_norm(size: int, alpha: float, beta: float, bias: float, *, form: Form) -> Op:
    window, padded = [1] * 4, [(0, 0)] * 4
    axis = 3 if form.images_last else 1
    window[axis], padded[axis] = size, (size // 2, size // 2)

    def run(x: Array) -> Array:
        wide = as_type(x, jnp.float32)
        zero = np.array(0, np.float32)
        squares = lax.reduce_window(wide * wide, zero, lax.add, window, (1, 1, 1, 1), padded)
        return as_type(wide * (bias + alpha / size * squares) ** -beta, x.dtype)

    return run


def max_pool(kernel: Numbers, stride: Numbers, padding: Numbers, *, form: Form) -> Op:
    return lambda x: _pool(x, -jnp.inf, lax.max, kernel, stride, padding, form=form)


def prelu(*, form: Form) -> Op:
    def run(x: Array, slope: Array) -> Array:
        wide = as_type(x, jnp.float32)
        (channels,) = form.axes(x, [1])
        slopes = slope.reshape([-1 if axis == channels else 1 for axis in range(x.ndim)])
        return as_type(jnp.where(wide > 0, wide, slopes * wide), x.dtype)

    return run


def batch_norm(epsilon: float, momentum: float, training: bool, *, form: Form) -> Op:
    of_channels = form.of_channels

    def normalise(x: Array, weight: Array, bias: Array, mean: Array, inverse_std: Array) -> Array:
        centred = as_type(x, jnp.float32) - of_channels(mean)
        return as_type(centred * of_channels(inverse_std * weight) + of_channels(bias), x.dtype)

    def infer(x: Array, weight: Array, bias: Array, mean: Array, variance: Array) -> Array:
        return normalise(x, weight, bias, mean, lax.rsqrt(variance + epsilon))

    def train(x: Array, weight: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        axes = (0, *form.pixels)
        batch_mean = jnp.mean(x, axes, jnp.float32)
        batch_variance = jnp.var(as_type(x, jnp.float32), axes)
        inverse_std = lax.rsqrt(batch_variance + epsilon)
        y = normalise(x, weight, bias, batch_mean, inverse_std)
        new_mean = momentum * mean + (1 - momentum) * batch_mean
        new_variance = momentum * variance + (1 - momentum) * batch_variance
        return y, batch_mean, inverse_std, new_mean, new_variance

    return train if training else infer


def dropout(rate: float) -> Op:
    def run(x: Array, mask: Array | None, *, key: Array | None) -> Array:
        # There is a mask if a check supplies it, or if it is the operand of a single op.
        kept = jax.random.bernoulli(key, 1 - rate, x.shape) if mask is None else mask != 0
        return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)

    return run


def concat(axis: int, *, form: Form) -> Op:
    return lambda *values: jnp.concatenate(values, form.axes(values[0], [axis])[0])


def flatten(*, form: Form) -> Op:
    # The contract flattens (C, H, W).
    return lambda x: form.ours(x).reshape(len(x), -1)


def flatten_as_it_lies(x: Array) -> Array:
    return x.reshape(len(x), -1)


def as_number(x: Array, value: float) -> np.ndarray:
    """A number in the type of x."""
    return np.asarray(value, x.dtype)


def hard_sigmoid(alpha: float, beta: float) -> Op:
    if (alpha, beta) == (1 / 6, 0.5):
        return lambda x: jax.nn.hard_sigmoid(x)
    return lambda x: lax.clamp(as_number(x, 0), alpha * x + beta, as_number(x, 1))


def matmul(transpose_a: bool, transpose_b: bool, *, form: Form) -> Op:
    def run(a: Array, b: Array) -> Array:
        a, b = (form.cast(form.ours(value)) for value in (a, b))
        return form.theirs(jnp.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b))

    return run


def normalise(axes: list[int], epsilon: float, *, form: Form) -> Op:
    # The bound is on the square, not on the root: the root has no gradient at zero.
    def run(x: Array) -> Array:
        squares = jnp.square(x).sum(form.axes(x, axes), keepdims=True)
        return x * lax.rsqrt(jnp.maximum(squares, epsilon**2))

    return run


def reduce(kind: str, axes: list[int], *, form: Form) -> Op:
    function = {"sum": jnp.sum, "mean": jnp.mean, "max": jnp.max}[kind]
    return lambda x: function(x, axis=form.axes(x, axes))


def reshape(shape: list[int], *, form: Form) -> Op:
    return lambda x: form.theirs(form.ours(x).reshape(shape))


def slice_(axis: int, begin: int, end: int, *, form: Form) -> Op:
    return lambda x: lax.slice_in_dim(x, begin, end, axis=form.axes(x, [axis])[0])


def softmax(*, form: Form) -> Op:
    return lambda x: jax.nn.softmax(x, form.axes(x, [x.ndim - 1])[0])


def softmax_cross_entropy(ignored: int | None = None) -> Op:
    loss_of = optax.softmax_cross_entropy_with_integer_labels

    def run(logits: Array, labels: Array) -> Array:
        logits = as_type(logits, jnp.float32)
        if ignored is None:
            return loss_of(logits, labels).mean()
        counted = labels != ignored
        losses = jnp.where(counted, loss_of(logits, jnp.where(counted, labels, 0)), 0)
        return losses.sum() / jnp.maximum(counted.sum(), 1)

    return run


def binary(function: Op) -> Callable[..., Op]:
    """A function of two operands that broadcast by the contract's dimensions, the last ones first."""

    def make(*, form: Form) -> Op:
        def run(a: Array, b: Array) -> Array:
            a, b = (form.theirs(x) if held else x for x, held in zip((a, b), form.held, strict=True))
            return of_values(a, b)

        def of_values(a: Array, b: Array) -> Array:
            if a.ndim == b.ndim:
                return function(a, b)
            return form.theirs(function(form.ours(a), form.ours(b)))

        return run if any(form.held) else of_values

    return make


def layer_norm(epsilon: float) -> Op:
    def run(x: Array, weight: Array, bias: Array) -> Array:
        wide = as_type(x, jnp.float32)
        mean = wide.mean(-1, keepdims=True)
        variance = jnp.square(wide - mean).mean(-1, keepdims=True)
        return as_type((wide - mean) * (lax.rsqrt(variance + epsilon) * weight) + bias, x.dtype)

    return run


def rms_norm(epsilon: float) -> Op:
    def run(x: Array, weight: Array) -> Array:
        wide = as_type(x, jnp.float32)
        inverse = lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + epsilon)
        return as_type(wide * (inverse * weight), x.dtype)

    return run


def attention(causal: bool, scale: float, *, form: Form) -> Op:
    def run(q: Array, k: Array, v: Array, mask: Array | None = None) -> Array:
        queries, keys = q.shape[1], k.shape[1]
        seen = None
        # JAX's own causal mask aligns the first query with the first key.
        if causal and queries != keys:
            seen = np.tri(queries, keys, keys - queries, dtype=np.bool_)[None, None]
        y = jax.nn.dot_product_attention(
            *(form.cast(x) for x in (q, k, v)),
            # A row of -inf would give NaN.
            bias=None if mask is None else jnp.maximum(mask, MASKED),
            mask=seen,
            scale=scale or None,
            is_causal=causal and seen is None,
        )
        if mask is None and not (causal and queries > keys):
            return y
        # A query that sees no key gets zeros.
        open_keys = jnp.full((1, 1, 1, keys), True) if mask is None else mask > -jnp.inf
        if causal:
            open_keys = open_keys & np.tri(queries, keys, keys - queries, dtype=np.bool_)
        return jnp.where(open_keys.any(-1).swapaxes(1, 2)[..., None], y, 0)

    return run


@lru_cache
def turns(length: int, width: int, base: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the cosines and sines of a rotary embedding: (length, 1, width / 2)."""
    angles = np.outer(np.arange(length), base ** -(np.arange(0, width, 2) / width))[:, None]
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotary(base: float, interleaved: bool, inverse: bool = False) -> Op:
    def run(x: Array) -> Array:
        _, length, _, width = x.shape
        cos, sin = turns(length, width, base)
        sin = -sin if inverse else sin
        wide = as_type(x, jnp.float32)
        if interleaved:
            a, b = wide[..., ::2], wide[..., 1::2]
        else:
            a, b = jnp.split(wide, 2, axis=-1)
        parts = a * cos - b * sin, a * sin + b * cos
        turned = jnp.stack(parts, -1).reshape(x.shape) if interleaved else jnp.concatenate(parts, -1)
        return as_type(turned, x.dtype)

    return run


def padding_mask(padding: int) -> Op:
    return lambda tokens: jnp.where(tokens == padding, -jnp.inf, 0.0).astype(jnp.float32)[:, None, None]


def tokens_at(length: int) -> Op:
    return lambda tokens, position: lax.dynamic_slice_in_dim(tokens, position[0], length, axis=1)


def cache_write() -> Op:
    def run(cache: Array, x: Array, position: Array) -> Array:
        return lax.dynamic_update_slice_in_dim(cache, x.astype(cache.dtype), position[0], axis=1)

    return run


def cache_mask(queries: int, keys: int) -> Op:
    def run(position: Array) -> Array:
        seen = jnp.arange(keys) <= (position[0] + jnp.arange(queries))[:, None]
        return jnp.where(seen, 0.0, -jnp.inf).astype(jnp.float32)[None, None]

    return run


def mean_pool() -> Op:
    def run(x: Array, mask: Array | None = None) -> Array:
        if mask is None:
            return x.mean(1)
        counted = (mask[:, 0, 0, :, None] > -jnp.inf).astype(x.dtype)
        return (x * counted).sum(1) / jnp.maximum(counted.sum(1), 1)

    return run


def embedding(sparse_gradient: bool = False) -> Op:
    # An index past the table gives a row of zeros.
    return lambda indices, weight: jnp.take(weight, indices, axis=0, mode="fill", fill_value=0)


def transpose(permutation: list[int], *, form: Form) -> Op:
    return lambda x: form.theirs(form.ours(x).transpose(permutation))


def lstm(last: bool, *, form: Form) -> Op:
    def run(x: Array, weight: Array, recurrent_weight: Array, bias: Array) -> Array:
        # The inputs are multiplied in each step, as in Flax's LSTMCell. On a CPU, one product of all steps
        # before the loop is slower, because the loop then reads an array that is four times as large: a
        # forward pass of the workload `lstm` takes 56 instead of 23 ms.
        weight, recurrent = form.turned(weight), form.turned(recurrent_weight)

        def step(carry: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array | None]:
            h, c = carry
            # Weights are cast in each step, as in Flax: their gradients are then added up in fp32.
            x_gates, h_gates = x @ form.cast(weight), h @ form.cast(recurrent)
            gates = x_gates.astype(jnp.float32) + h_gates.astype(jnp.float32) + bias
            i, f, g, o = jnp.split(gates, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = (jax.nn.sigmoid(o) * jnp.tanh(c)).astype(form.compute)
            return (h, c), None if last else h

        shape = (x.shape[0], len(recurrent))
        start = jnp.zeros(shape, form.compute), jnp.zeros(shape, jnp.float32)
        (h, _), every = lax.scan(step, start, form.cast(x).swapaxes(0, 1))
        return h if last else every.swapaxes(0, 1)

    return run


OPS: dict[str, Callable[..., Op]] = {
    "add": binary(operator.add),
    "advance": lambda by: lambda position: position + by,
    "attention": attention,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "cache_mask": cache_mask,
    "cache_write": cache_write,
    "clamp": lambda least, most: lambda x: lax.clamp(as_number(x, least), x, as_number(x, most)),
    "concat": concat,
    "convolution": convolution,
    "divide": binary(operator.truediv),
    "dot": lambda: jnp.dot,
    "dropout": dropout,
    "elu": lambda alpha: lambda x: jax.nn.elu(x, alpha),
    "embedding": embedding,
    "flatten": flatten,
    "from_array": lambda in_list=False: lambda array: jnp.array(array),
    "from_list": lambda: lambda numbers: jnp.array(numbers, jnp.float32),
    "gelu": lambda approximate: lambda x: jax.nn.gelu(x, approximate=approximate == "tanh"),
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": lambda: jax.nn.hard_swish,
    "layer_norm": layer_norm,
    # As jax.nn.leaky_relu, whose gradient at 0 is dy.
    "leaky_relu": lambda slope: lambda x: jnp.where(x > 0, x, slope * x),
    "linear": linear,
    "lstm": lstm,
    "local_response_norm": local_response_norm,
    "matmul": matmul,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "multiply": binary(operator.mul),
    "normalise": normalise,
    "padding_mask": padding_mask,
    "prelu": prelu,
    "reduce": reduce,
    "relu": lambda: jax.nn.relu,
    "reshape": reshape,
    "rms_norm": rms_norm,
    "rotary": rotary,
    "selu": lambda: jax.nn.selu,
    "sigmoid": lambda: jax.nn.sigmoid,
    "silu": lambda: jax.nn.silu,
    "slice": slice_,
    "softmax": softmax,
    "softmax_cross_entropy": softmax_cross_entropy,
    "softplus": lambda: jax.nn.softplus,
    "softsign": lambda: jax.nn.soft_sign,
    "subtract": binary(operator.sub),
    "tanh": lambda: jnp.tanh,
    "tokens_at": tokens_at,
    "transpose": transpose,
}
# These depend on the type and layout; the others are elementwise, in the type of their operands.
FORMED_OPS = {
    *(
        "attention",
        "average_pool",
        "batch_norm",
        "concat",
        "convolution",
        "flatten",
        "linear",
        "lstm",
        "matmul",
    ),
    *("local_response_norm", "max_pool", "normalise", "prelu", "reduce", "reshape", "slice", "softmax"),
    "transpose",
    *BROADCASTING_OPS,
}
# In the layout `native` the images of these ops are (N, H, W, C).
IMAGE_OPS = {"average_pool", "batch_norm", "convolution", "local_response_norm", "max_pool", "prelu"}
# The weight operands of these ops, which are (in, out) in the layout `native`.
WEIGHTS = {"convolution": slice(1, 2), "linear": slice(1, 2), "lstm": slice(1, 3)}
# These operands are cast to the type of the products; the biases of an LSTM are added in fp32.
CAST_OPERANDS = {"convolution": slice(1, 3), "linear": slice(1, 3), "lstm": slice(1, 3)}
# These ops draw random numbers: each gets its own key.
RANDOM_OPS = {"dropout"}


def translate(node: Node, form: Form) -> Op:
    """Raise Unsupported when JAX's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the jax adapter has no such op")
    make = partial(OPS[node.op], form=form) if node.op in FORMED_OPS else OPS[node.op]
    try:
        return make(**node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


def function_of(
    graph: Graph,
    form: Form,
    lying: Collection[str] = (),
    kept: Collection[str] = (),
    nodes: Sequence[Node] | None = None,
    weights: set[str] | None = None,
) -> Callable[..., Values]:
    """Return a function from parameters, running statistics and inputs to values, all by name.

    The values are what it was given, the outputs, the updates, and those in `kept`. The results of flatten
    in `lying` keep the order of their operand. If the inputs have no masks, each dropout draws with its own
    key. `nodes` are those of the graph that it computes: all of them by default. `weights` are by default
    those of weights_of().
    """
    of_heads, weights = values_of_heads(graph), weights_of(graph) if weights is None else weights
    nodes = graph.nodes if nodes is None else nodes
    numbers = {node.name: number for number, node in enumerate(graph.nodes)}

    def form_of(node: Node) -> Form:
        kept = node.op in WEIGHTS and not weights.issuperset(node.inputs[WEIGHTS[node.op]])
        return replace(
            form,
            inputs_first=form.inputs_first and not kept,
            takes_heads=node.inputs[0] in of_heads,
            makes_heads=node.outputs[0] in of_heads,
            held=held_operands(graph, node),
        )

    read_last = last_reads(
        [(node.inputs, node.outputs) for node in nodes],
        {*kept, *graph.outputs.values(), *graph.updates.values()},
    )
    plan: list[
        tuple[Callable[..., Any], int | None, Sequence[str | None], Sequence[str | None], list[str]]
    ] = [
        (
            flatten_as_it_lies if node.outputs[0] in lying else translate(node, form_of(node)),
            numbers[node.name] if node.op in RANDOM_OPS else None,
            node.inputs,
            node.outputs,
            last,
        )
        for node, last in zip(nodes, read_last, strict=True)
    ]
    masks = {str(node.inputs[1]): None for node in nodes if node.op in RANDOM_OPS}

    def run(given: Values, key: Array | None = None) -> Values:
        # In eager mode this loop is part of each step: it does no more than it must.
        values: dict[Any, Any] = {None: None, **masks, **given}
        for op, number, operands, results, last in plan:
            fed = [values[operand] for operand in operands]
            for name in last:
                del values[name]
            if number is not None:
                found = op(*fed, key=None if key is None else jax.random.fold_in(key, number))
            else:
                found = op(*fed)
            if isinstance(found, tuple):
                made = zip(results, found, strict=False)
                values.update((result, value) for result, value in made if result is not None)
            elif results[0] is not None:
                values[results[0]] = found
        del values[None]
        return values

    return run


def training_function(
    program: Program, form: Form, lying: Collection[str], kept: Collection[str]
) -> Callable[..., Values]:
    """function_of() the training graph; jax.checkpoint computes its segments again in the backward pass."""
    if not program.segments:
        return function_of(program.training, form, lying, kept)

    def part_of(nodes: Sequence[Node], gives: list[str]) -> Callable[..., Values]:
        run = function_of(program.training, form, lying, gives, nodes)

        def part(given: Values, key: Array | None) -> Values:
            made = run(given, key)
            return {name: made[name] for name in gives}

        return part

    parts = [
        (jax.checkpoint(function) if part.again else function, part.reads)
        for part in program.training_parts(kept)
        for function in [part_of(part.nodes, part.gives)]
    ]

    def run(given: Values, key: Array | None = None) -> Values:
        values = dict(given)
        for part, reads in parts:  # there are no masks if they are drawn
            values.update(part({name: values[name] for name in reads if name in values}, key))
        return values

    return run


def weights_of(graph: Graph) -> set[str]:
    """The names of the operands that are (in, out) in the layout `native`.

    A weight that is also a table, whose rows an embedding takes, is not one of them.
    """
    found = [
        str(name) for node in graph.nodes if node.op in WEIGHTS for name in node.inputs[WEIGHTS[node.op]]
    ]
    return {name for name in found if graph.reads_of(name) == found.count(name)}


class Network:
    """The functions of both graphs of a program, and the layout of its parameters and inputs.

    `run` is the function of the graph of the task. With `casts`, inference also reads copies of parameters
    in the type of the products, by names that end with CAST.
    """

    def __init__(self, program: Program, form: Form, task: str, casts: bool = False) -> None:
        graph = program.graph(task)
        # An image that only fully connected layers read is flattened without moving it: the rows of their
        # weights have the order of the image.
        flattens = [node for node in graph.nodes if node.op == "flatten" and form.images_last]
        lying = {str(n.outputs[0]): n for n in flattens if graph.feeds_only(n, "linear")}
        looked_at = [*lying.values(), *(node for node in graph.nodes if node.op in RANDOM_OPS)]
        kept = {str(name) for node in looked_at for name in (node.inputs[0], node.outputs[0])}
        self.run = (
            training_function(program, form, lying, kept)
            if task == "train"
            else function_of(graph, form, lying, kept)
        )
        decoding = program.decoding
        graphs = [program.inference, *([decoding.prefill, decoding.step] if decoding else [])]
        held = [value.name for value in program.parameters]
        of_inference = [
            weights | {f"{name}{CAST}" for name in weights} for weights in map(weights_of, graphs)
        ]
        if casts:
            graphs = [with_casts(graph, CAST_OPERANDS) for graph in graphs]
            held += [name for name in names_read(graphs) if name.endswith(CAST)]
        # Of an inference: the parameters and copies that it reads.
        self.read = [name for name in held if not casts or name in names_read(graphs)]
        self.run_inference = function_of(graphs[0], form, lying, kept, weights=of_inference[0])
        if decoding:
            self.run_prefill, self.run_token = (
                function_of(graph, form, weights=weights)
                for graph, weights in zip(graphs[1:], of_inference[1:], strict=True)
            )
        self.layout = ChannelsLast()
        weights = weights_of(graph)
        self.layout.as_it_is = {v.name for v in program.parameters + program.states} - (
            weights if form.inputs_first else set()
        )
        if lying:
            shapes = jax.eval_shape(partial(self.run, key=jax.random.key(0)), self._fed(program, graph))
        for node in lying.values():
            image = shapes[str(node.inputs[0])].shape
            if len(image) == 4:
                _, height, width, channels = image
                for reader in graph.readers(node):
                    self.layout.rows[str(reader.inputs[1])] = (channels, height, width)

    def _fed(self, program: Program, graph: Graph) -> dict[str, jax.ShapeDtypeStruct]:
        """The shapes and types of everything that a graph is fed."""
        types = {"i32": jnp.int32, "f32": jnp.float32}
        fed = [value for role in ("input", "label") for value in graph.with_role(role)]
        shapes = {v.name: (images_to_theirs(np.empty(v.shape, np.bool_)).shape, types[v.dtype]) for v in fed}
        for value in program.parameters + program.states:
            held = self.layout.to_theirs(value.name, np.empty(value.shape, np.bool_))
            shapes[value.name] = held.shape, jnp.float32
        return {name: jax.ShapeDtypeStruct(*of_value) for name, of_value in shapes.items()}
