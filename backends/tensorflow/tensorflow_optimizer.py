"""The optimizers of docs/reference/protocol.md, made of Keras's own, whose formulas differ.

Adam adds epsilon before the bias correction: Keras gets epsilon * sqrt(1 - beta2^t) in each step, computed
from its own count of steps. RMSprop adds epsilon below the root, where no other value has the same effect on
gradients of its size: its update is written again, with the same number of ops. SGD keeps the learning rate
inside the velocity, momentum = -velocity * rate, and the velocity is rescaled when the rate changes. Weight
decay is decoupled in Keras: except for AdamW it is added to the gradients, as a kernel regularizer would do.
Keras's global_clipnorm has no epsilon next to the norm: the clipping is written here. The gradient of an
embedding, a tf.IndexedSlices, is made dense as in the contract: Keras's Adam does not sum its duplicates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from assay_worker import CLIP_EPSILON, Optimizer


def of_contract(kind: type[keras.optimizers.Optimizer], spec: Optimizer) -> type[keras.optimizers.Optimizer]:
    """Return a Keras optimizer that gets the contract's gradients from every caller."""

    class OfContract(kind):
        def apply(self, grads: Sequence[Any], trainable_variables: Any = None) -> None:
            if spec.counts_steps:
                # epsilon * sqrt(1 - beta2^t), in as few ops as possible: each takes 0.2 % of a step of mlp.
                before = tf.cast(self.iterations.value, tf.float32)
                square = spec.epsilon**2
                self.epsilon = tf.sqrt(square - square * spec.beta2 * tf.pow(spec.beta2, before))
            coupled = spec.decay_is_coupled
            decays = [coupled and spec.decay_of(variable.shape) for variable in trainable_variables]
            dense = [tf.convert_to_tensor(gradient) for gradient in grads]
            if spec.clip_norm:
                scale = tf.minimum(1.0, spec.clip_norm / (tf.linalg.global_norm(dense) + CLIP_EPSILON))
                dense = [gradient * scale for gradient in dense]
            parts = zip(dense, trainable_variables, decays, strict=True)
            super().apply(
                [g + decay * variable.value if decay else g for g, variable, decay in parts],
                trainable_variables,
            )

        def _all_reduce_sum_gradients(self, grads_and_vars: Any) -> Any:
            """Keep the gradients: with several ranks, Keras would sum them, and they are means already."""
            return grads_and_vars

    return OfContract


class RMSprop(keras.optimizers.RMSprop):
    """Keras's RMSprop, with epsilon after the root."""

    def update_step(self, gradient: Any, variable: keras.Variable, learning_rate: Any) -> None:
        ops = keras.ops
        square = self._velocities[self._get_variable_index(variable)]
        mean = ops.add(ops.multiply(self.rho, square), ops.multiply(1 - self.rho, ops.square(gradient)))
        self.assign(square, mean)
        rate = ops.cast(learning_rate, variable.dtype)
        root = ops.add(ops.sqrt(square), self.epsilon)
        self.assign_sub(variable, ops.divide(ops.multiply(rate, gradient), root))


class Rule:
    """A Keras optimizer, its moments by our names, and the step from which it counts."""

    def __init__(self, spec: Optimizer, variables: dict[str, keras.Variable]) -> None:
        self._spec = spec
        self._set_rate: float | None = None  # the value of Keras's variable
        self._rate: float | None = None  # the rate inside SGD's velocity, or None
        betas = {"beta_1": spec.beta1, "beta_2": spec.beta2}
        if spec.kind == "adam":
            self.keras = of_contract(keras.optimizers.Adam, spec)(epsilon=spec.epsilon, **betas)
        elif spec.kind == "adamw":
            adamw = of_contract(keras.optimizers.AdamW, spec)
            self.keras = adamw(epsilon=spec.epsilon, weight_decay=spec.weight_decay, **betas)
            others = [variable for variable in variables.values() if not spec.decays(variable.shape)]
            self.keras.exclude_from_weight_decay(var_list=others)
        elif spec.kind == "rmsprop":
            self.keras = of_contract(RMSprop, spec)(rho=spec.decay, epsilon=spec.epsilon)
        else:
            self.keras = of_contract(keras.optimizers.SGD, spec)(momentum=spec.momentum)
        self.keras.build(list(variables.values()))
        held = {
            "adam": lambda o: {"m": o._momentums, "v": o._velocities},
            "adamw": lambda o: {"m": o._momentums, "v": o._velocities},
            "rmsprop": lambda o: {"square": o._velocities},
            "sgd": lambda o: {"momentum": o.momentums},
        }[spec.kind](self.keras)
        self._moments = {
            (name, moment): held[moment][index]
            for moment in spec.moments
            for index, name in enumerate(variables)
        }

    @property
    def moments(self) -> dict[tuple[str, str], keras.Variable]:
        """The moments by parameter and name."""
        return self._moments

    @property
    def scale(self) -> float:
        """The factor from a moment of Keras to that of the contract."""
        return 1.0 if self._rate is None else -1.0 / self._rate

    def restart(self) -> None:
        """Call after the moments have been set to those of the contract."""
        self._rate = None

    def holds(self, learning_rate: float) -> bool:
        """Whether prepare() would set nothing at that rate, except in the first step after a restart."""
        return learning_rate == self._set_rate

    def prepare(self, learning_rate: float, step: int, first: bool) -> None:
        """Set the values that the next step, number `step` from 1, reads; `first` after a restart."""
        if first:
            self.keras.iterations.assign(step - 1)
        if self._spec.kind == "sgd" and self._spec.momentum and learning_rate != self._rate:
            factor = -learning_rate if self._rate is None else learning_rate / self._rate
            for moment in self._moments.values():
                moment.assign(moment * factor)
            self._rate = learning_rate
        if learning_rate != self._set_rate:
            self.keras.learning_rate.assign(learning_rate)
            self._set_rate = learning_rate
