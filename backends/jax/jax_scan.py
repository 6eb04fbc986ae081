"""Mode `scan`: several training steps in one call, over batches that stay on the device.

A lax.scan has a fixed length, and a block may have any number of steps. So the loop's length is an operand
(lax.fori_loop): one step and many steps are one executable, which is the one that the exam looks at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax_settings import put

MOST_STEPS = 64  # of a call

State = tuple[Any, Any, Any, Any]  # parameters, running statistics, moments and the key of dropout
TrainStep = Callable[..., tuple[Any, Any, Any, Any, Array]]


class Scan:
    """The batches of all slots as one array, and the compiled loop."""

    def __init__(self, train_step: TrainStep, slots: int, device: jax.Device) -> None:
        self._slots, self._device = slots, device
        self._batches: tuple[Array, Array] | None = None
        self._rates: tuple[float, ...] = ()
        self._downs: Array | None = None  # the negative rates, on the device

        def steps(
            parameters: Any,
            states: Any,
            moments: Any,
            key: Any,
            batches: tuple[Array, Array],
            masks: Any,
            downs: Array,
            first_slot: Array,
            count: Array,
        ) -> tuple[State, Array]:
            def step(number: Array, carried: tuple[State, Array]) -> tuple[State, Array]:
                slot = (first_slot + number) % slots
                inputs, labels = (lax.dynamic_index_in_dim(held, slot, keepdims=False) for held in batches)
                *state, loss = train_step(*carried[0], inputs, labels, masks, downs[number])
                return (state[0], state[1], state[2], state[3]), loss

            start = (parameters, states, moments, key), jnp.zeros((), jnp.float32)
            found: tuple[State, Array] = lax.fori_loop(0, count, step, start)
            return found

        self.compiled = jax.jit(steps, donate_argnums=(0, 1, 2, 3))

    def stage(self, slot: int, inputs: Array, labels: Array) -> None:
        if not 0 <= slot < self._slots:
            raise ValueError(f"[scan] slot {slot}: the cell has {self._slots} resident batches")
        if self._batches is None:
            self._batches = tuple(jnp.zeros((self._slots, *x.shape), x.dtype) for x in (inputs, labels))
        held, of_labels = self._batches
        self._batches = held.at[slot].set(inputs), of_labels.at[slot].set(labels)

    def batch(self, slot: int) -> tuple[Array, Array]:
        if self._batches is None:
            raise ValueError("[scan] no batch was staged")
        held, of_labels = self._batches
        return held[slot], of_labels[slot]

    def run(self, state: State, masks: Any, first_slot: int, rates: Sequence[float]) -> tuple[State, Array]:
        """Take a step for each rate, on the slots from the first on in turn; return the last loss."""
        loss: Array | None = None
        for begin in range(0, len(rates), MOST_STEPS):
            part = tuple(rates[begin : begin + MOST_STEPS])
            if part != self._rates[: len(part)]:
                self._rates = part + (part[-1],) * (MOST_STEPS - len(part))
                self._downs = put(-np.array(self._rates, np.float32), self._device)
            slot = (first_slot + begin) % self._slots
            state, loss = self.compiled(*state, self._batches, masks, self._downs, slot, len(part))
        if loss is None:
            raise ValueError("[scan] no step was asked for")
        return state, loss
