"""Mistakes in how ranks train together, for the adapters of wrong_ranks_worker.py.

An adapter gives `spoilt()` the gradients that its ranks averaged and those of this rank alone, and trains
with what it returns. Its of_rank_0() returns an array of rank 0 on every rank, and its average_statistics()
replaces the running statistics by their means over the ranks.
"""

from __future__ import annotations

from typing import Any


class Mistake:
    """A mistake's docstring describes it; `shows`: a wrong tensor's name begins so."""

    shows = "first/moment/"
    rank: int
    world: int

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return means


class SumsGradients(Mistake):
    """The gradients are summed over the ranks, not averaged."""

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return {name: self.world * mean for name, mean in means.items()}


class KeepsItsOwnGradients(Mistake):
    """Rank 1 trains with its own gradients."""

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return own if self.rank == 1 else means


class SkipsABucket(Mistake):
    """The gradients of the last layer are not exchanged."""

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        last = list(means)[-2:]
        return means | {name: own[name] for name in last}


class StartsElsewhere(Mistake):
    """Rank 1 has other initial weights."""

    shows = "first/parameter/"

    def set_state(self, tensors: dict[str, Any]) -> None:
        scale = 1.01 if self.rank == 1 else 1.0
        super().set_state({name: tensor * tensor.dtype.type(scale) for name, tensor in tensors.items()})


class ReadsTheSameSlice(Mistake):
    """Every rank trains on the samples of rank 0."""

    def stage(self, slot: int, inputs: Any, labels: Any) -> None:
        super().stage(slot, self.of_rank_0(inputs), self.of_rank_0(labels))


class IsOneStepLate(Mistake):
    """A step trains with the means of the step before."""

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        before = getattr(self, "before", {name: 0 * mean for name, mean in means.items()})
        self.before = means
        return dict(before)


class AveragesRunningStatistics(Mistake):
    """The running statistics are those of all ranks."""

    shows = "first/running/"

    def step(self, slot: int, rate: float, number: int) -> None:
        super().step(slot, rate, number)
        self.average_statistics()


class ExchangesOnlyInTheExam(Mistake):
    """Ranks train alone before step 20, where the steps of an exam begin."""

    number = 0

    def step(self, slot: int, rate: float, number: int) -> None:
        self.number = number
        super().step(slot, rate, number)

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return means if self.number >= 20 else own


MISTAKES: dict[str, type[Mistake]] = {
    kind.__name__: kind
    for kind in (
        SumsGradients,
        KeepsItsOwnGradients,
        SkipsABucket,
        StartsElsewhere,
        ReadsTheSameSlice,
        IsOneStepLate,
    )
}
NORM_MISTAKES: dict[str, type[Mistake]] = {  # of a network with batch norm
    kind.__name__: kind for kind in (AveragesRunningStatistics,)
}
CHEATS: dict[str, type[Mistake]] = {ExchangesOnlyInTheExam.__name__: ExchangesOnlyInTheExam}
