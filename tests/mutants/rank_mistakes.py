"""Mistakes in how ranks train together, in front of the adapters of rank_adapters.py.

An adapter gives `spoilt()` the gradients that its ranks averaged and those of this rank alone, and trains
with what it returns. Its of_rank_0() returns an array of rank 0 on every rank, and its average_statistics()
replaces the running statistics by their means over the ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mutant import Batch, Mutant, Tensors, of


class RankMistake(Mutant):
    """No mistake."""

    shows = ("first/moment/",)
    number = 0  # of the last step

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        return means

    def step(self, slot: int, rate: float, number: int) -> None:
        self.number = number
        super().step(slot, rate, number)


class StartsElsewhere(RankMistake):
    """Rank 1 has other initial weights."""

    shows = ("first/parameter/",)

    def set_state(self, tensors: Tensors) -> None:
        scale = 1.01 if self.rank == 1 else 1.0
        super().set_state({name: tensor * tensor.dtype.type(scale) for name, tensor in tensors.items()})


class IsOneStepLate(RankMistake):
    """A step trains with the means of the step before."""

    def spoilt(self, means: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
        earlier = getattr(self, "earlier", {name: 0 * mean for name, mean in means.items()})
        self.earlier = means
        return dict(earlier)


class AveragesRunningStatistics(RankMistake):
    """The running statistics are those of all ranks."""

    shows = ("first/running/",)

    def step(self, slot: int, rate: float, number: int) -> None:
        super().step(slot, rate, number)
        self.average_statistics()  # type: ignore[attr-defined]


class DrawsTheMasksOfRank0(RankMistake):
    """All ranks drop the same elements."""

    shows = ("draws/",)

    def seed_masks(self, seed: int) -> None:
        super().seed_masks(1)  # type: ignore[misc]


class TakesTheMasksOfRank0(RankMistake):
    """Every rank takes the masks of the samples of rank 0."""

    shows = ("first/",)

    def supply_masks(self, masks: Tensors) -> None:
        of_first = {name: self.of_rank_0(mask) for name, mask in masks.items()}  # type: ignore[attr-defined]
        super().supply_masks(of_first)  # type: ignore[misc]


def of_rank_0(m: Any, batch: Batch) -> Batch:
    return Batch(batch.slot, m.of_rank_0(batch.inputs), m.of_rank_0(batch.labels).astype(np.int32))


RANK_MISTAKES: dict[str, type[RankMistake]] = {
    "SumsGradients": of("The gradients are summed over the ranks, not averaged.", RankMistake, spoilt=lambda m, means, own: {name: m.world * mean for name, mean in means.items()}),
    "KeepsItsOwnGradients": of("Rank 1 trains with its own gradients.", RankMistake, spoilt=lambda m, means, own: own if m.rank == 1 else means),
    "SkipsABucket": of("The gradients of the last layer are not exchanged.", RankMistake, spoilt=lambda m, means, own: means | {name: own[name] for name in list(means)[-2:]}),
    "StartsElsewhere": StartsElsewhere,
    "ReadsTheSameSlice": of("Every rank trains on the samples of rank 0.", RankMistake, changed_batch=of_rank_0),
    "IsOneStepLate": IsOneStepLate,
}  # fmt: skip
NORM_MISTAKES = {"AveragesRunningStatistics": AveragesRunningStatistics}  # of a network with batch norm
DROPOUT_MISTAKES = {
    "DrawsTheMasksOfRank0": DrawsTheMasksOfRank0,
    "TakesTheMasksOfRank0": TakesTheMasksOfRank0,
}
RANK_CHEATS = {
    "ExchangesOnlyInTheExam": of("Ranks train alone before step 20, where the steps of an exam begin.", RankMistake, spoilt=lambda m, means, own: means if m.number >= 20 else own, codes=("ranks_differ",))
}  # fmt: skip
