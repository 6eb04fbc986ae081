"""What a user of JAX writes: two networks as functions, optax's Adam, a jitted step, a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

Batches = list[tuple[np.ndarray, np.ndarray]]


def dense(parameters: Any, name: str, x: jax.Array) -> jax.Array:
    weight, bias = parameters[name]
    return x @ weight + bias


def convolution(parameters: Any, name: str, x: jax.Array) -> jax.Array:
    weight, bias = parameters[name]
    y = lax.conv_general_dilated(x, weight, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return y + bias


def pool(x: jax.Array) -> jax.Array:
    window = (1, 2, 2, 1)
    return lax.reduce_window(x, np.float32(0), lax.add, window, window, "VALID") / 4


def mlp(p: Any, x: jax.Array) -> jax.Array:
    return dense(p, "fc2", jax.nn.relu(dense(p, "fc1", x.reshape(len(x), -1))))


def lenet5(p: Any, x: jax.Array) -> jax.Array:
    x = pool(jax.nn.relu(convolution(p, "conv1", x)))
    x = pool(jax.nn.relu(convolution(p, "conv2", x))).reshape(len(x), -1)
    return dense(p, "fc3", jax.nn.relu(dense(p, "fc2", jax.nn.relu(dense(p, "fc1", x)))))


SHAPES: dict[str, dict[str, tuple[int, ...]]] = {
    "mlp": {"fc1": (784, 128), "fc2": (128, 10)},
    "lenet5": {
        "conv1": (5, 5, 1, 6),
        "conv2": (3, 3, 6, 16),
        "fc1": (400, 120),
        "fc2": (120, 84),
        "fc3": (84, 10),
    },
}


def make(workload: str, mode: str, batches: Batches) -> Callable[[int, int], float]:
    """Give what trains so many steps from a number on, rotating the batches, and gives the last loss."""
    model = {"mlp": mlp, "lenet5": lenet5}[workload]
    random = np.random.default_rng(1)
    parameters = {
        name: (jnp.array(random.normal(0, 0.05, shape), jnp.float32), jnp.zeros(shape[-1]))
        for name, shape in SHAPES[workload].items()
    }
    optimizer = optax.adam(1e-3)
    state = optimizer.init(parameters)

    def loss_of(parameters: Any, inputs: jax.Array, labels: jax.Array) -> jax.Array:
        losses = optax.softmax_cross_entropy_with_integer_labels(model(parameters, inputs), labels)
        return losses.mean()

    def step(parameters: Any, state: Any, inputs: jax.Array, labels: jax.Array) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(parameters, inputs, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, loss

    if mode == "jit":
        step = jax.jit(step, donate_argnums=(0, 1))
    held = [(jnp.array(x.transpose(0, 2, 3, 1)), jnp.array(y)) for x, y in batches]

    def run(first: int, steps: int) -> float:
        nonlocal parameters, state
        for i in range(first, first + steps):
            parameters, state, loss = step(parameters, state, *held[i % len(held)])
        jax.block_until_ready((parameters, state))
        return float(loss)

    return run
