"""Several ranks: MultiWorkerMirroredStrategy, with an endpoint of each rank."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from assay_worker import Cell
from assay_worker.rendezvous import connected, kept_port, own_address

CONNECT_SECONDS = 300.0
Place = tuple[str, int]


class Ranks:
    """The place of this process among those that train one model; one rank has nobody to talk to.

    Variables are made within scope(), and steps run by run(). Make it before TensorFlow starts its devices.
    """

    def __init__(self, cell: Cell) -> None:
        self._strategy: tf.distribute.Strategy | None = None
        self.exchanges = True  # False: a step that is traced now leaves out the exchange
        if cell.world == 1:
            return
        with kept_port(own_address(cell.rendezvous)) as own:
            cluster = {"worker": exchanged_endpoints(cell.rank, cell.world, cell.rendezvous, own)}
            os.environ["TF_CONFIG"] = json.dumps(
                {"cluster": cluster, "task": {"type": "worker", "index": cell.rank}}
            )
            self._strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=_options(cell))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow keeps the process, for a checkpoint
        self._is_first, self._on_gpus = cell.rank == 0, cell.device == "cuda"
        # A reduction needs the result of an op, which has a device.
        self._sum = tf.function(self.run(lambda value: _summed(tf.identity(value))))

    def __bool__(self) -> bool:
        return self._strategy is not None

    def scope(self) -> contextlib.AbstractContextManager[object]:
        made: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        return made if self._strategy is None else self._strategy.scope()

    def run(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return the step as a part of what all ranks do at the same time."""
        strategy = self._strategy
        return step if strategy is None else lambda *operands: strategy.run(step, operands)

    def mean(self, gradients: list[Any]) -> list[Any]:
        """Return the means over the ranks, within a step: sums, for Keras divides each loss by the ranks."""
        if self._strategy is None:
            return gradients
        dense = [tf.convert_to_tensor(gradient) for gradient in gradients]
        means: list[Any] = _summed(dense) if self.exchanges else dense
        return means

    def bare(self, shapes: list[tuple[int, ...]], compiled: Callable[..., Any]) -> Callable[[], None]:
        """Return a function that exchanges arrays of these shapes; they are there when it returns."""

        def sums(*arrays: Any) -> Any:
            return _summed([tf.identity(array) for array in arrays])

        exchange = compiled(self.run(sums))
        zeros = [tf.zeros(shape) for shape in shapes]
        return lambda: exchange(*zeros)

    def agreed(self, value: int) -> int:
        """Return rank 0's value, once all ranks have called this."""
        return int(self.total(np.array(value if self._is_first else 0, np.int64)))

    def total(self, array: np.ndarray) -> tf.Tensor:
        """Return the sum over the ranks, outside of a step."""
        return self._sum(tf.constant(array))

    def settings(self) -> dict[str, str]:
        if self._strategy is None:
            return {}
        way = "NCCL" if self._on_gpus else "ring over gRPC"
        return {"data_parallel": f"MultiWorkerMirroredStrategy, {way}"}


def _options(cell: Cell) -> tf.distribute.experimental.CommunicationOptions:
    kinds = tf.distribute.experimental.CommunicationImplementation
    return tf.distribute.experimental.CommunicationOptions(
        implementation=kinds.NCCL if cell.device == "cuda" else kinds.AUTO
    )


def _summed(value: Any) -> Any:
    return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, value)


def exchanged_endpoints(rank: int, world: int, place: Place, own: str) -> list[str]:
    """Return the endpoints of all ranks, in their order. `own` is that of this rank.

    Rank 0 listens at the rendezvous, and the others tell it their endpoints.
    """
    endpoints = _collected(world, place, own) if rank == 0 else _told(rank, place, own)
    return [endpoints[str(number)] for number in range(world)]


def _collected(world: int, place: Place, own: str) -> dict[str, str]:
    endpoints, peers = {"0": own}, []
    with socket.create_server(place, backlog=world) as server, contextlib.ExitStack() as stack:
        server.settimeout(CONNECT_SECONDS)
        while len(endpoints) < world:
            peer, _ = server.accept()
            peers.append(stack.enter_context(peer.makefile("rw")))
            peer.close()  # the file keeps the connection
            endpoints |= json.loads(peers[-1].readline())
        for told in peers:
            told.write(json.dumps(endpoints) + "\n")
            told.flush()
            told.readline()  # the end of the file: the rank has read them
    return endpoints


def _told(rank: int, place: Place, own: str) -> dict[str, str]:
    with connected(place, CONNECT_SECONDS) as peer, peer.makefile("rw") as told:
        told.write(json.dumps({str(rank): own}) + "\n")
        told.flush()
        found: dict[str, str] = json.loads(told.readline())
    return found
