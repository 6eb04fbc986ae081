"""Loops as JAX users write them: a function, value_and_grad, optax, a jitted step, a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from clock import Batch, Calls, Framework, Loop, main
from jax import Array
from jax_networks import Parameters, apply, init
from networks import Network
from operators import operands_of

COMPILE: dict[str, Callable[..., Any]] = {"eager": lambda function: function, "jit": jax.jit}


def optimizer_of(network: Network) -> optax.GradientTransformation:
    if network.optimizer == "sgd":
        return optax.sgd(network.learning_rate, network.momentum or None)
    if network.optimizer == "rmsprop":
        return optax.rmsprop(network.learning_rate, 0.9, 1e-7)
    if network.optimizer == "adamw":
        adamw = optax.adamw(
            network.learning_rate,
            b2=network.beta2,
            weight_decay=network.weight_decay,
            mask=lambda parameters: jax.tree.map(lambda p: p.ndim >= 2, parameters),
        )
        clip = optax.clip_by_global_norm(network.clip_norm)
        return optax.chain(clip, adamw) if network.clip_norm else adamw
    return optax.adam(network.learning_rate)


def images_last(inputs: np.ndarray) -> np.ndarray:
    return inputs.transpose(0, 2, 3, 1) if inputs.ndim == 4 else inputs


def sizes(parameters: Any) -> int:
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(parameters))


class JaxLoop(Loop):
    def __init__(self, name: str, network: Network, batches: Iterator[tuple[Any, Any]]) -> None:
        first, self.batches = next(batches), batches
        make = jax.jit(init(name, network))
        self.variables: tuple[Parameters, Parameters] = make(jax.random.key(0), jnp.asarray(first[0]))

    def parameters(self) -> int:
        return sizes(self.variables[0])

    def settings(self) -> dict[str, str]:
        names = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").iterdir()]
        return {"threads": str(sum("XLAEigen" in name for name in names))}


class Training(JaxLoop):
    def __init__(self, name: str, network: Network, mode: str, batches: Iterator[tuple[Any, Any]]) -> None:
        super().__init__(name, network, batches)
        model, optimizer = apply(name, network), optimizer_of(network)
        self.optimizer_state = optimizer.init(self.variables[0])
        self.key = jax.random.key(1) if name == "cifar10-cnn" else None  # only dropout draws

        def loss_fn(
            parameters: Parameters, state: Parameters, key: Array | None, inputs: Array, labels: Array
        ) -> tuple[Array, Parameters]:
            logits, state = model(parameters, state, inputs, True, key)
            loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
            return loss, state

        def train_step(
            parameters: Parameters,
            state: Parameters,
            optimizer_state: Any,
            key: Array | None,
            inputs: Array,
            labels: Array,
        ) -> tuple[Any, ...]:
            drawn = None
            if key is not None:
                key, drawn = jax.random.split(key)
            gradient_fn = jax.value_and_grad(loss_fn, has_aux=True)
            (loss, state), gradients = gradient_fn(parameters, state, drawn, inputs, labels)
            updates, optimizer_state = optimizer.update(gradients, optimizer_state, parameters)
            return optax.apply_updates(parameters, updates), state, optimizer_state, key, loss

        self.train_step = COMPILE[mode](train_step)

    def run(self, steps: int) -> float:
        for inputs, labels in islice(self.batches, steps):
            *variables, self.optimizer_state, self.key, loss = self.train_step(
                *self.variables, self.optimizer_state, self.key, inputs, labels
            )
            self.variables = variables[0], variables[1]
        jax.block_until_ready(self.variables)
        return float(loss)


class Inference(JaxLoop):
    def __init__(self, name: str, network: Network, mode: str, batches: Iterator[tuple[Any, Any]]) -> None:
        super().__init__(name, network, batches)
        model = apply(name, network)

        def predict(parameters: Parameters, state: Parameters, inputs: Array) -> Array:
            return model(parameters, state, inputs, False)[0]

        self.predict = COMPILE[mode](predict)

    def run(self, steps: int) -> float:
        for inputs, _ in islice(self.batches, steps):
            logits = self.predict(*self.variables, inputs).block_until_ready()
        return float(logits.sum())


OPERATORS: dict[str, Callable[..., Array]] = {
    "op/sigmoid": jax.nn.sigmoid,
    "op/relu": jax.nn.relu,
    "op/tanh": jnp.tanh,
    "op/softplus": jax.nn.softplus,
    "op/softsign": jax.nn.soft_sign,
    "op/dot": jnp.dot,
    "op/gemm": jnp.matmul,
    "op/flatten_matrix": jnp.ravel,
    "op/normalise": lambda x: x / jnp.maximum(jnp.linalg.norm(x), 1e-12),
    "op/from_array": jnp.array,
    "op/from_list": jnp.array,
    "op/from_rows": jnp.array,
}


class Jax(Framework):
    version = jax.__version__
    modes = ("eager", "jit")

    def resident(self, name: str, network: Network, mode: str, task: str, batches: list[Batch]) -> Loop:
        held = [(jnp.array(images_last(x)), jnp.array(y)) for x, y in batches]
        kind = Inference if task == "infer" else Training
        return kind(name, network, mode, cycle(held))

    def loading(self, name: str, network: Network, mode: str, images: np.ndarray, labels: np.ndarray) -> Loop:
        # JAX has no loader: its tutorials shuffle numpy arrays and pass slices to the step.
        random = np.random.default_rng(0)

        def batches() -> Iterator[Batch]:
            while True:
                order = random.permutation(len(images))
                for begin in range(0, len(images) - network.batch + 1, network.batch):
                    chosen = order[begin : begin + network.batch]
                    yield images[chosen, :, :, None].astype(np.float32) / 255, labels[chosen]

        return Training(name, network, mode, batches())

    def operator(self, name: str, mode: str) -> Loop:
        given = operands_of(name)
        if name == "op/gemm":
            given[1] = given[1].T  # (in, out)
        held = given if name.startswith("op/from_") else [jnp.array(operand) for operand in given]
        function = COMPILE[mode](OPERATORS[name])
        return Calls(lambda: function(*held), lambda result: float(result.sum()))

    def count(self, name: str, network: Network) -> int:
        height_last = (*network.shape[1:], network.shape[0]) if len(network.shape) == 3 else network.shape
        kind = jnp.int32 if network.vocabulary else jnp.float32
        inputs = jax.ShapeDtypeStruct((1, *height_last), kind)
        return sizes(jax.eval_shape(init(name, network), jax.random.key(0), inputs)[0])


if __name__ == "__main__":
    main(Jax())
