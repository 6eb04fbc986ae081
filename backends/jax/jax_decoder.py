"""Task decode: tokens one at a time, with caches of a fixed size."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from assay_worker import Cell, Decoding, Graph
from jax import Array
from jax_network import Network, Values
from jax_settings import compute_type, put

Step = Callable[..., tuple[Values, Array]]
Named = Callable[[list[Array]], Values]


class Decoder:
    """The caches and the position of a network, which its two functions take and return.

    Under jit both are donated, so that XLA writes the caches in place.
    """

    def __init__(
        self, decoding: Decoding, network: Network, named: Named, cell: Cell, device: jax.Device
    ) -> None:
        self._decoding, self._device, self._dtype = decoding, device, compute_type(cell)
        self._kept: Values = {}
        position = decoding.position

        def found(graph: Graph, values: Values) -> tuple[Values, Array]:
            kept = {name: values[updated] for name, updated in graph.updates.items()}
            return kept, values[graph.outputs["logits"]]

        def prefill(caches: Values, parameters: list[Array], inputs: Array) -> tuple[Values, Array]:
            start = {position.name: jnp.zeros(position.shape, jnp.int32)}
            given = {**named(parameters), **caches, **start, "inputs": inputs}
            return found(decoding.prefill, network.run_prefill(given))

        def next_token(kept: Values, parameters: list[Array], inputs: Array) -> tuple[Values, Array]:
            return found(decoding.step, network.run_token({**named(parameters), **kept, "inputs": inputs}))

        if cell.mode == "jit":
            self._prefill: Step = jax.jit(prefill, donate_argnums=0)
            self.token_function: Step = jax.jit(next_token, donate_argnums=0)
        else:
            self._prefill, self.token_function = prefill, next_token

    def clear(self) -> None:
        self._kept = {value.name: self._zeros(value.shape) for value in self._decoding.caches}

    def prefill(self, parameters: list[Array], inputs: Array) -> Array:
        # Later places may have keys of an earlier sample: the mask hides them.
        caches = {value.name: self._kept[value.name] for value in self._decoding.caches}
        self._kept, logits = self._prefill(caches, parameters, inputs)
        return logits

    def next_token(self, parameters: list[Array], inputs: Array) -> Array:
        self._kept, logits = self.token_function(self._kept, parameters, inputs)
        return logits

    @property
    def cache_bytes(self) -> int:
        return sum(self._kept[value.name].nbytes for value in self._decoding.caches)

    def _zeros(self, shape: tuple[int, ...]) -> Array:
        return put(np.zeros(shape, self._dtype), self._device)
