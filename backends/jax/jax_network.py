"""graph.json as a pure function: one function per op, walked in the order of the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from assay_worker import Graph, Node, Unsupported
from jax import Array, lax

# Gives the node's first result, or a tuple of all that it has.
Op = Callable[..., Any]
Values = dict[str, Array]

IMAGES = ("NCHW", "OIHW", "NCHW")


def convolution(stride: int, padding: int, *, compute: jnp.dtype) -> Op:
    def run(x: Array, weight: Array, bias: Array | None) -> Array:
        y = lax.conv_general_dilated(
            x.astype(compute),
            weight.astype(compute),
            (stride, stride),
            [(padding, padding)] * 2,
            dimension_numbers=IMAGES,
        )
        return y if bias is None else y + bias.astype(compute)[:, None, None]

    return run


def linear(*, compute: jnp.dtype) -> Op:
    def run(x: Array, weight: Array, bias: Array | None) -> Array:
        y = x.astype(compute) @ weight.astype(compute).T
        return y if bias is None else y + bias.astype(compute)

    return run


def _pool(x: Array, start: float, combine: Op, kernel: int, stride: int, padding: int) -> Array:
    window, strides = (1, 1, kernel, kernel), (1, 1, stride, stride)
    padded = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return lax.reduce_window(x, np.array(start, x.dtype), combine, window, strides, padded)


def average_pool(kernel: int, stride: int, padding: int) -> Op:
    # The divisor counts the padding.
    return lambda x: _pool(x, 0, lax.add, kernel, stride, padding) / kernel**2


def max_pool(kernel: int, stride: int, padding: int) -> Op:
    return lambda x: _pool(x, -jnp.inf, lax.max, kernel, stride, padding)


def batch_norm(epsilon: float, momentum: float, training: bool) -> Op:
    def normalise(x: Array, weight: Array, bias: Array, mean: Array, inverse_std: Array) -> Array:
        centred = x.astype(jnp.float32) - mean[:, None, None]
        y = centred * (inverse_std * weight)[:, None, None] + bias[:, None, None]
        return y.astype(x.dtype)

    def infer(x: Array, weight: Array, bias: Array, mean: Array, variance: Array) -> Array:
        return normalise(x, weight, bias, mean, lax.rsqrt(variance + epsilon))

    def train(x: Array, weight: Array, bias: Array, mean: Array, variance: Array) -> tuple[Array, ...]:
        axes = (0, 2, 3)
        batch_mean = jnp.mean(x, axes, jnp.float32)
        batch_variance = jnp.var(x.astype(jnp.float32), axes)
        inverse_std = lax.rsqrt(batch_variance + epsilon)
        y = normalise(x, weight, bias, batch_mean, inverse_std)
        new_mean = momentum * mean + (1 - momentum) * batch_mean
        new_variance = momentum * variance + (1 - momentum) * batch_variance
        return y, batch_mean, inverse_std, new_mean, new_variance

    return train if training else infer


def dropout(rate: float) -> Op:
    def run(x: Array, mask: Array | None, *, key: Array | None) -> Array:
        # A mask is there while a check supplies it, or as the operand of a single op.
        kept = jax.random.bernoulli(key, 1 - rate, x.shape) if mask is None else mask != 0
        return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)

    return run


def concat(axis: int) -> Op:
    return lambda *values: jnp.concatenate(values, axis)


def matmul(transpose_a: bool, transpose_b: bool, *, compute: jnp.dtype) -> Op:
    def run(a: Array, b: Array) -> Array:
        a, b = a.astype(compute), b.astype(compute)
        return jnp.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)

    return run


def normalise(axes: list[int], epsilon: float) -> Op:
    # The square is bounded, not the root: at zero the root has no gradient.
    def run(x: Array) -> Array:
        return x * lax.rsqrt(jnp.maximum(jnp.square(x).sum(tuple(axes), keepdims=True), epsilon**2))

    return run


def reduce(kind: str, axes: list[int]) -> Op:
    function = {"sum": jnp.sum, "mean": jnp.mean, "max": jnp.max}[kind]
    return lambda x: function(x, axis=tuple(axes))


def slice_(axis: int, begin: int, end: int) -> Op:
    return lambda x: lax.slice_in_dim(x, begin, end, axis=axis)


def softmax_cross_entropy() -> Op:
    def run(logits: Array, labels: Array) -> Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels)
        return losses.mean()

    return run


def embedding(sparse_gradient: bool = False) -> Op:
    if sparse_gradient:
        raise Unsupported("[embedding] JAX's gradients are dense: --embedding-gradient dense")
    # An index past the table gives a row of zeros.
    return lambda indices, weight: jnp.take(weight, indices, axis=0, mode="fill", fill_value=0)


def lstm(last: bool, *, compute: jnp.dtype) -> Op:
    def run(x: Array, weight: Array, recurrent_weight: Array, bias: Array) -> Array:
        # The inputs' share of all steps at once, as Flax's OptimizedLSTMCell has it for one step.
        given = x.astype(compute) @ weight.astype(compute).T
        recurrent = recurrent_weight.astype(compute).T

        def step(carry: tuple[Array, Array], gates: Array) -> tuple[tuple[Array, Array], Array]:
            h, c = carry
            gates = gates.astype(jnp.float32) + (h @ recurrent).astype(jnp.float32) + bias
            i, f, g, o = jnp.split(gates, 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = (jax.nn.sigmoid(o) * jnp.tanh(c)).astype(compute)
            return (h, c), h

        shape = (x.shape[0], recurrent_weight.shape[1])
        start = jnp.zeros(shape, compute), jnp.zeros(shape, jnp.float32)
        (h, _), every = lax.scan(step, start, given.swapaxes(0, 1))
        return h if last else every.swapaxes(0, 1)

    return run


OPS: dict[str, Callable[..., Op]] = {
    "add": lambda: jnp.add,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "concat": concat,
    "convolution": convolution,
    "dot": lambda: jnp.dot,
    "dropout": dropout,
    "embedding": embedding,
    "flatten": lambda: lambda x: x.reshape(len(x), -1),
    "from_array": lambda: lambda array: jnp.array(array),
    "from_list": lambda: lambda numbers: jnp.array(numbers, jnp.float32),
    "linear": linear,
    "lstm": lstm,
    "matmul": matmul,
    "max_pool": max_pool,
    "multiply": lambda: jnp.multiply,
    "normalise": normalise,
    "reduce": reduce,
    "relu": lambda: jax.nn.relu,
    "reshape": lambda shape: lambda x: x.reshape(shape),
    "sigmoid": lambda: jax.nn.sigmoid,
    "slice": slice_,
    "softmax": lambda: jax.nn.softmax,
    "softmax_cross_entropy": softmax_cross_entropy,
    "softplus": lambda: jax.nn.softplus,
    "softsign": lambda: jax.nn.soft_sign,
    "tanh": lambda: jnp.tanh,
    "transpose": lambda permutation: lambda x: x.transpose(permutation),
}
# These compute in the type of the precision policy; the others in that of their operands.
MATRIX_OPS = {"convolution", "linear", "lstm", "matmul"}
# These draw: each gets a key of its own.
RANDOM_OPS = {"dropout"}


def translate(node: Node, compute: jnp.dtype) -> Op:
    """Raise Unsupported when JAX's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the jax adapter has no such op")
    make = partial(OPS[node.op], compute=compute) if node.op in MATRIX_OPS else OPS[node.op]
    try:
        return make(**node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


def function_of(graph: Graph, compute: jnp.dtype) -> Callable[..., Values]:
    """Give what turns parameters, running statistics and inputs by name into all values by name.

    Where masks are not among them dropout draws, by a key of its own for each.
    """
    plan = [(translate(node, compute), node.op, node.inputs, node.outputs) for node in graph.nodes]
    masks = {str(node.inputs[1]): None for node in graph.nodes if node.op in RANDOM_OPS}

    def run(given: Values, key: Array | None = None) -> Values:
        values: dict[str, Any] = {**masks, **given}
        for number, (op, name, operands, results) in enumerate(plan):
            drawn: dict[str, Any] = {}
            if name in RANDOM_OPS:
                drawn["key"] = None if key is None else jax.random.fold_in(key, number)
            found = op(*[None if operand is None else values[operand] for operand in operands], **drawn)
            made = zip(results, found if isinstance(found, tuple) else (found,), strict=False)
            values.update((result, value) for result, value in made if result is not None)
        return values

    return run
