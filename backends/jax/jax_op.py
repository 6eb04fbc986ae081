"""A single op of JAX: only forward, or forward and its jax.vjp."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from assay_worker import Cell, ChannelsLast, OpAdapter, Program, images_to_ours, images_to_theirs, refuse
from jax import Array
from jax_network import IMAGE_OPS, Form, Values, as_type, function_of, weights_of
from jax_settings import (
    CHANNELS_FIRST,
    as_array,
    compute_type,
    device_of,
    memory_of,
    observed,
    put,
)


class JaxOp(OpAdapter):
    """A step is one pure function, compiled under `jit`; it takes states and returns them."""

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse(program)
        super().__init__(program, cell)
        self._device = device_of(cell.device)
        native = cell.layout != CHANNELS_FIRST
        self._images = native and any(node.op in IMAGE_OPS for node in self.graph.nodes)
        self._weights = weights_of(self.graph) if native else set()
        self._layout = ChannelsLast()
        run = function_of(self.graph, Form(compute_type(cell), images_last=self._images, inputs_first=native))
        names, outputs = self.given, list(self.graph.outputs.values())
        base = jax.random.key(cell.seed)
        positions = [names.index(name) for name in self.differentiated]

        def forward(states: Values, drawn: Any, given: list[Any]) -> tuple[tuple[Array, ...], Values]:
            fed = {name: value for name, value in zip(names, given, strict=True) if value is not None}
            values = run({**states, **fed}, None if drawn is None else jax.random.fold_in(base, drawn))
            updated = states | {state: values[name] for state, name in self.graph.updates.items()}
            return tuple(values[name] for name in outputs), updated

        def both_ways(
            states: Values, drawn: Any, operands: list[Any], cotangents: list[Array]
        ) -> tuple[tuple[Array, ...], Values]:
            def of_differentiated(*given: Array) -> tuple[tuple[Array, ...], Values]:
                replaced = list(operands)
                for position, operand in zip(positions, given, strict=True):
                    replaced[position] = operand
                return forward(states, drawn, replaced)

            given = [operands[position] for position in positions]
            results, backward, updated = jax.vjp(of_differentiated, *given, has_aux=True)
            # Under bf16 some results are bf16; cotangents are given in fp32.
            of_results = (as_type(c, result.dtype) for c, result in zip(cotangents, results, strict=True))
            return (*results, *backward(tuple(of_results))), updated

        compiled: Callable[[Any], Any] = jax.jit if cell.mode == "jit" else lambda function: function
        self._step = compiled(both_ways) if self.is_training else compiled(forward)
        self._last: Sequence[Array] = ()
        self._steps = 0

    def place(self, name: str, array: np.ndarray) -> Array:
        if name in self._weights:
            array = self._layout.to_theirs(name, array)
        elif self._images:
            array = images_to_theirs(array)
        return put(array, self._device)

    def fetch(self, name: str, tensor: Array) -> np.ndarray:
        found = as_array(tensor)
        if name in self._weights:
            return self._layout.to_ours(name, found)
        return images_to_ours(found) if self._images else found

    def compute(self, given: list[Any], cotangents: list[Array]) -> Sequence[Array]:
        backward = (cotangents,) if self.is_training else ()
        self._steps += 1
        drawn = self._steps if self.masks else None
        self._last, self.states = self._step(self.states, drawn, given, *backward)
        return self._last

    def synchronize(self) -> None:
        jax.block_until_ready((self._last, self.states))

    def memory(self) -> dict[str, int]:
        return memory_of(self._device)

    def settings(self) -> dict[str, str]:
        return observed(self._step)
