"""The time of a step of synchronous data parallelism, by formulas: docs/how-to/scale.md, "Scaling on paper".

Seconds, bytes, and bytes per second in each direction of a link.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Link:
    """A connection on which a message of b bytes takes `latency + b / bandwidth`."""

    bandwidth: float
    latency: float

    def seconds(self, size: float, messages: float) -> float:
        """The time of that many messages one after the other, of `size` bytes together."""
        return size / self.bandwidth + messages * self.latency


@dataclass(frozen=True)
class Cluster:
    """Machines with `per_machine` ranks each. `network` is the link of a machine, `inside` that of a rank."""

    network: Link
    inside: Link
    per_machine: int = 1
    servers: int = 0  # of the parameter server, on machines of their own; 0: one next to each rank


@dataclass(frozen=True)
class Step:
    """A training step on one rank, without other ranks."""

    compute: float  # with the whole batch
    fixed: float = 0.0  # the part of it that does not shrink with the batch: update, launches
    overlap: float = 0.0  # the share of a rank's compute time during which it may exchange gradients, 0 to 1


@dataclass(frozen=True)
class Point:
    """A step on `ranks` ranks."""

    ranks: int
    compute: float
    communication: float
    exposed: float  # the part of the communication for which the ranks wait
    speedup: float  # in samples per second, over one rank
    efficiency: float  # the speed-up over the number of ranks

    @property
    def step(self) -> float:
        return self.compute + self.exposed


def ring(cluster: Cluster, size: float, ranks: int) -> float:
    """A reduce-scatter and an all-gather: in each of 2 (n - 1) rounds, a rank passes on 1/n of the bytes."""
    rounds = 2 * (ranks - 1)
    return cluster.network.seconds(rounds / ranks * size, rounds)


def tree(cluster: Cluster, size: float, ranks: int) -> float:
    """A reduction up a binary tree and a broadcast down, each of all bytes in log2 n rounds, rounded up."""
    rounds = 2 * math.ceil(math.log2(ranks))
    return cluster.network.seconds(rounds * size, rounds)


def hierarchical(cluster: Cluster, size: float, ranks: int) -> float:
    """A reduce-scatter within each machine, rings between the machines, an all-gather within each machine.

    A machine's ranks have 1/g of the sums each, and their g rings between machines share its link.
    """
    machines, group = math.ceil(ranks / cluster.per_machine), min(ranks, cluster.per_machine)
    within = ring(Cluster(cluster.inside, cluster.inside), size, group)
    return within + ring(cluster, size, machines)


def server(cluster: Cluster, size: float, ranks: int) -> float:
    """Every rank sends all gradients to the servers, which hold an equal part each, and fetches the sums.

    A server next to each rank: the rank's own part does not use its link.
    """
    if cluster.servers == 0:
        return cluster.network.seconds(2 * (ranks - 1) / ranks * size, 2)
    busiest = max(1.0, ranks / cluster.servers)  # the link of a rank, or that of a server
    return cluster.network.seconds(2 * busiest * size, 2)


# Seconds in which n > 1 ranks have the sum of `size` bytes each.
EXCHANGES: dict[str, Callable[[Cluster, float, int], float]] = {
    "ring": ring,
    "tree": tree,
    "hierarchical": hierarchical,
    "server": server,
}


def simulate(step: Step, size: float, cluster: Cluster, exchange: str, ranks: int, weak: bool) -> Point:
    """A step on that many ranks: of the same batch together, or of the same batch each if `weak`."""
    variable = step.compute - step.fixed
    compute = step.fixed + (variable if weak else variable / ranks)
    communication = EXCHANGES[exchange](cluster, size, ranks) if ranks > 1 else 0.0
    exposed = max(0.0, communication - step.overlap * compute)
    speedup = (ranks if weak else 1) * step.compute / (compute + exposed)
    return Point(ranks, compute, communication, exposed, speedup, speedup / ranks)
