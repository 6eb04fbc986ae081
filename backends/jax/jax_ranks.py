"""Several ranks: the devices of all processes in one mesh, with JAX's collectives on gloo or NCCL."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from assay_worker import Cell
from jax import Array, lax
from jax._src import distributed  # its barrier: the public one is a collective
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "ranks"
EVERYWHERE = PartitionSpec()  # each rank has a copy
ROWS = PartitionSpec(AXIS)  # each rank has its own rows
HEARTBEAT_SECONDS = 30  # after which a silent rank is dead; JAX's default is 100
PATIENCE_MS = 24 * 3600 * 1000  # for others to compile: the time limit of the cell ends it


class Together:
    """A step that all ranks have compiled before the first of them begins: gloo waits for 30 s at most."""

    def __init__(self, compiled: Any, wait: Callable[[], None]) -> None:
        self._compiled, self._wait, self._began = compiled, wait, False
        self._cache_size = compiled._cache_size

    def take_other_operands(self) -> None:
        """Let the next call be the first of another program, with operands of other shapes."""
        self._began = False

    def __call__(self, *given: Any) -> Any:
        if not self._began:
            self._compiled.lower(*given).compile()
            self._wait()
            self._began = True
        return self._compiled(*given)


class Ranks:
    """The place of this process among those that train one model; one rank has nobody to talk to."""

    def __init__(self, cell: Cell) -> None:
        self._world = cell.world
        self._library = "NCCL" if cell.device == "cuda" else "gloo"
        self._waits = 0
        self.exchanges = True  # False: a step that is traced now leaves out the exchange
        if cell.world == 1:
            return
        host, port = cell.rendezvous
        # JAX would keep the process after SIGTERM, for a checkpoint.
        jax.config.update("jax_enable_preemption_service", False)
        jax.distributed.initialize(
            f"{host}:{port}",
            cell.world,
            cell.rank,
            cluster_detection_method="deactivate",
            coordinator_bind_address=f"{host}:{port}",  # by default JAX listens at every address
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
        self._mesh = Mesh(np.array(jax.devices()), (AXIS,))

    def compiled(
        self, step: Callable[..., Any], rows: tuple[int, ...], donated: tuple[int, ...]
    ) -> Callable[..., Any]:
        """Compile the step of all ranks: its arguments at `rows` are rows, and its last result is."""
        if self._world == 1:
            alone: Callable[..., Any] = jax.jit(step, donate_argnums=donated)
            return alone
        count = len(inspect.signature(step).parameters)
        given = tuple(ROWS if place in rows else EVERYWHERE for place in range(count))
        returned = (EVERYWHERE, EVERYWHERE, EVERYWHERE, EVERYWHERE, ROWS)
        # With `check_vma`, JAX refuses the scan of an LSTM, whose first state is the same on all ranks.
        shared = jax.shard_map(step, mesh=self._mesh, in_specs=given, out_specs=returned, check_vma=False)
        return Together(jax.jit(shared, donate_argnums=donated), self._wait_for_all)

    def row(self, loss: Array) -> Array:
        """Return the loss of this rank as a row, within a step."""
        return loss if self._world == 1 else loss[None]

    def mean(self, gradients: Any) -> Any:
        """Return the means over the ranks, within a step."""
        return lax.pmean(gradients, AXIS) if self._world > 1 and self.exchanges else gradients

    def bare(self, parameters: list[Array]) -> Callable[[], None]:
        """Return a function that exchanges arrays of these shapes, and waits for them."""
        mean = jax.shard_map(
            lambda arrays: lax.pmean(arrays, AXIS),
            mesh=self._mesh,
            in_specs=EVERYWHERE,
            out_specs=EVERYWHERE,
            check_vma=False,
        )
        exchanged = jax.jit(mean)
        zeros = [self.everywhere(jnp.zeros(array.shape, array.dtype)) for array in parameters]

        def exchange() -> None:
            jax.block_until_ready(exchanged(zeros))

        return exchange

    def everywhere(self, array: Array) -> Array:
        """Take this rank's copy of an array that all ranks have."""
        return array if self._world == 1 else self._global(array, array.shape, EVERYWHERE)

    def rows(self, array: Array) -> Array:
        """Take this rank's rows of an array that no rank has as a whole."""
        if self._world == 1:
            return array
        return self._global(array, (self._world * array.shape[0], *array.shape[1:]), ROWS)

    def own(self, array: Array) -> Array:
        """Return what this rank has of an array."""
        return array if self._world == 1 else array.addressable_data(0)

    def agreed(self, value: int) -> int:
        """Return rank 0's value, once all ranks have called this."""
        halves = np.array([value], np.int64).view(np.int32)  # JAX has 64 bits only as an option
        found = np.asarray(multihost_utils.broadcast_one_to_all(halves))
        return int(found.view(np.int64)[0])

    def settings(self) -> dict[str, str]:
        if self._world == 1:
            return {}
        return {"data_parallel": f"shard_map, pmean of the gradients, {self._library}"}

    def _wait_for_all(self) -> None:
        self._waits += 1
        distributed.global_state.client.wait_at_barrier(f"assay/{self._waits}", PATIENCE_MS)

    def _global(self, own: Array, shape: tuple[int, ...], spec: PartitionSpec) -> Array:
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(self._mesh, spec), [own])
