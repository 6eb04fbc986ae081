"""Several ranks: MXNet's distributed kvstore, whose servers add up the gradients of all ranks.

Rank 0 starts the scheduler, and each rank one server, as many as MXNet's own launcher starts. The environment
variable MXNET_SERVER_RANKS, which is Assay's, names the ranks that start them instead: "0,0" has two of rank
0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import mxnet as mx
import numpy as np
from assay_worker import Cell, Unsupported
from assay_worker.rendezvous import own_address

SERVER = Path(__file__).with_name("mxnet_server.py")
SERVERS = "MXNET_SERVER_RANKS"
VALUE = 1 << 30  # the key of a value that the ranks agree on; the Trainer's keys count parameters from 0


class Ranks:
    """The kvstore of a cell of several ranks. Every rank must make the same calls in the same order."""

    def __init__(self, cell: Cell) -> None:
        host, port = cell.rendezvous
        servers = ranks_with_servers(os.environ.get(SERVERS, ""), cell.world)
        self.servers = described(servers, cell.world)
        place = {
            "DMLC_PS_ROOT_URI": host,
            "DMLC_PS_ROOT_PORT": str(port),
            "DMLC_NUM_WORKER": str(cell.world),
            "DMLC_NUM_SERVER": str(len(servers)),
            # Otherwise each process listens at the address of the first interface that is not loopback.
            "DMLC_NODE_HOST": own_address(cell.rendezvous),
        }
        os.environ.update(place, DMLC_ROLE="worker")
        for role in (["scheduler"] if cell.rank == 0 else []) + ["server"] * servers.count(cell.rank):
            _start(role)
        self._servers = len(servers)
        self._is_first = cell.rank == 0  # the kvstore numbers its workers otherwise
        self.kvstore = mx.kv.create("dist_sync")  # returns when all ranks and servers are there
        # The only float type of the servers that holds every count.
        self._value = mx.nd.zeros(1, ctx=mx.cpu(), dtype="float64")
        self.kvstore.init(VALUE, self._value)

    def agree(self, value: int) -> int:
        """Return rank 0's value, once all ranks have called this."""
        self._value[:] = value if self._is_first else 0
        self.kvstore.pushpull(VALUE, self._value, out=self._value)
        return int(np.rint(self._value.asscalar()))

    def bare(self, like: list[mx.nd.NDArray]) -> Callable[[], None]:
        """Return a function that exchanges arrays of these shapes as the Trainer does, and waits."""
        # The key chooses the server of an array: here it is that of the gradient.
        first = VALUE + self._servers - VALUE % self._servers
        zeros = [mx.nd.zeros_like(array) for array in like]
        for place, array in enumerate(zeros):
            self.kvstore.init(first + place, array)

        def exchange() -> None:
            for place, array in enumerate(zeros):
                self.kvstore.pushpull(first + place, array, out=array, priority=-place)
            mx.nd.waitall()

        return exchange


def ranks_with_servers(names: str, world: int) -> list[int]:
    """Return the rank that starts each server. Raises Unsupported if it is not one of them."""
    if not names:
        return list(range(world))
    words = [word.strip() for word in names.split(",")]
    if not all(word.isascii() and word.isdigit() and int(word) < world for word in words):
        raise Unsupported(f"[mxnet] {SERVERS}={names}: expected ranks from 0 to {world - 1}, such as 0,0")
    return [int(word) for word in words]


def described(servers: list[int], world: int) -> str:
    if servers == list(range(world)):
        return f"{world} servers"
    of_ranks = ", ".join(map(str, servers))
    return f"{len(servers)} server{'s' if len(servers) > 1 else ''} of rank {of_ranks}"


def _start(role: str) -> None:
    """Start a process of the kvstore, which ends with this one, and end this one if it fails."""
    command = [sys.executable, str(SERVER), str(os.getpid())]
    process = subprocess.Popen(command, env=os.environ | {"DMLC_ROLE": role}, stdin=subprocess.DEVNULL)

    def watch() -> None:
        status = process.wait()
        print(f"[ranks] the {role} of the kvstore ended with status {status}", file=sys.stderr, flush=True)
        os._exit(1)  # the main thread waits for it in MXNet

    threading.Thread(target=watch, daemon=True).start()
