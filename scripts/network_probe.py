#!/usr/bin/env python3
"""Measures a network without a framework: latency, bandwidth, and exchanges of gradients without adding.

    scripts/network_probe.py ADDRESS PORT PLAN

This is the second rank of probe(), which starts it.
"""

from __future__ import annotations

import json
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from scaling_model import Link

PINGS = 300
REPEATS = 5
PAUSE_SECONDS = 0.01  # between repeats: a step computes between its exchanges
CONNECT_SECONDS = 30.0
CHUNK = 1 << 18

Round = tuple[int, int]  # the bytes that the first and the second rank send at the same time


class ProbeError(Exception):
    """The network could not be measured, for people."""


@dataclass(frozen=True)
class Plan:
    bulk: int  # bytes that both ranks send at the same time, for the bandwidth
    exchanges: list[tuple[str, int]]  # names, and bytes of gradients


@dataclass(frozen=True)
class Found:
    link: Link
    exchanges: list[float]  # seconds


def rounds_of(exchange: str, size: int) -> list[Round]:
    """Return what two ranks send so that each has the sum of `size` bytes: the exchanges of scaling_model."""
    half = size // 2
    if exchange == "tree":
        return [(0, size), (size, 0)]
    if exchange in ("ring", "server"):
        return [(size - half, half), (half, size - half)]
    raise ValueError(f"two ranks have no exchange {exchange!r}")


class Wire:
    """One end of a connection. Both ends make the same calls in the same order."""

    def __init__(self, connection: socket.socket, is_first: bool) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._connection, self._is_first = connection, is_first
        self._buffer = memoryview(bytearray(CHUNK))

    def latency(self) -> float:
        """Return the seconds of a message of one byte: half of the median round trip."""
        times = []
        for _ in range(PINGS):
            begin = time.perf_counter()
            self._exchange((1, 0))
            self._exchange((0, 1))
            times.append(time.perf_counter() - begin)
        return statistics.median(times) / 2

    def seconds(self, rounds: Sequence[Round]) -> float:
        """Return the median time of these rounds, until both ends know that all is there."""
        times = []
        for _ in range(REPEATS):
            time.sleep(PAUSE_SECONDS)
            self._exchange((1, 1))  # both begin
            begin = time.perf_counter()
            for one in rounds:
                self._exchange(one)
            self._exchange((1, 1))
            times.append(time.perf_counter() - begin)
        return statistics.median(times)

    def _exchange(self, sizes: Round) -> None:
        """Send and receive at the same time."""
        left, missing = sizes if self._is_first else sizes[::-1]
        here = [self._connection]
        while left or missing:
            readable, writable, _ = select.select(here if missing else [], here if left else [], [])
            if writable:
                left -= self._connection.send(self._buffer[: min(left, CHUNK)])
            if readable:
                count = self._connection.recv_into(self._buffer, min(missing, CHUNK))
                if count == 0:
                    raise ProbeError("the probe's other end is gone")
                missing -= count


def measure(wire: Wire, plan: Plan) -> Found:
    """Measure on both ends what the first one reports."""
    latency = wire.latency()
    bandwidth = plan.bulk / (wire.seconds([(plan.bulk, plan.bulk)]) - 2 * latency)
    return Found(
        Link(bandwidth, latency), [wire.seconds(rounds_of(*one)) - latency for one in plan.exchanges]
    )


def probe(address: str, in_other: Callable[[list[str]], list[str]], plan: Plan) -> Found:
    """Measure the network between this address and the place where `in_other` starts a command.

    Raises ProbeError.
    """
    with socket.create_server((address, 0)) as server:
        server.settimeout(CONNECT_SECONDS)
        port = str(server.getsockname()[1])
        command = in_other([sys.executable, __file__, address, port, json.dumps(asdict(plan))])
        with subprocess.Popen(command) as second:
            try:
                connection, _ = server.accept()
                with connection:
                    return measure(Wire(connection, is_first=True), plan)
            except OSError as error:
                raise ProbeError(f"the network cannot be measured: {error}") from error
            finally:
                second.terminate()


def main() -> int:
    if len(sys.argv) != 4:
        print("usage: network_probe.py ADDRESS PORT PLAN", file=sys.stderr)
        return 2
    place = sys.argv[1], int(sys.argv[2])
    with socket.create_connection(place, CONNECT_SECONDS) as connection:
        measure(Wire(connection, is_first=False), Plan(**json.loads(sys.argv[3])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
