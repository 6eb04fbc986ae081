"""The exam of dropout: what the timed program draws, and that it computes with what it drew.

The program that was timed draws its masks. Another program of the same network takes masks as data, and is
compared with the oracle. Here both do the same steps with the same masks: docs/reference/protocol.md, "The
exam".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from .adapter import TrainingAdapter
from .errors import Unsupported
from .op_adapter import OpAdapter
from .tensors import Tensors, copied

DRAWS = 3  # steps that are compared by their loss
KEPT_STATES = 2  # of these, steps that are compared by all that they update


class DropoutExam(ABC):
    """Two halves: take_timed_steps() before any mask is supplied, answers() when all else is answered."""

    @abstractmethod
    def take_timed_steps(self) -> None:
        """Keep what the program computes as it was timed."""

    @abstractmethod
    def answers(self) -> Tensors:
        """Return the drawn masks, and what both programs computed with the same masks."""


class NetworkDropout(DropoutExam):
    """Each step starts from the exam's state; which masks it drew shows when the generator begins again."""

    def __init__(
        self,
        adapter: TrainingAdapter,
        state: Tensors,
        row: list[float],
        slot_of: Callable[[int], int],
        batches: int,
        handed: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        """row: learning rate and step count; slot_of: where one of the batches is staged.

        handed: the elements of a tensor that the conductor reads.
        """
        self._adapter, self._start = adapter, state
        self._rate, self._step_count = row[0], int(row[1])
        self._seed = self._step_count  # another one in each exam
        self._slot_of, self._batches, self._handed = slot_of, batches, handed
        self._losses: list[float] = []
        self._states: list[Tensors] = []

    def take_timed_steps(self) -> None:
        try:
            self._adapter.seed_masks(self._seed)
        except Unsupported:
            return
        for draw in range(DRAWS):
            self._losses.append(self._loss_of_step(draw))
            if draw < KEPT_STATES:
                self._states.append(self._handed_state())

    def answers(self) -> Tensors:
        adapter = self._adapter
        adapter.supply_masks({})
        if self._losses:
            adapter.seed_masks(self._seed)
        drawn = []
        for draw in range(DRAWS):
            adapter.set_state(self._start)
            drawn.append(adapter.draw_masks(self._slot(draw)))
        found = draws(drawn[0], drawn[1])
        if not self._losses:
            return found
        losses, states = [], []
        for draw, masks in enumerate(drawn):
            adapter.supply_masks(filled(masks))
            losses.append(self._loss_of_step(draw))
            if draw < KEPT_STATES:
                states.append(self._handed_state())
        found["timed/loss"] = np.stack([self._losses, losses], axis=1)
        for program, after in (("drawn", self._states), ("taken", states)):
            for name in after[0]:
                found[f"timed/{program}/{name}"] = np.stack([state[name] for state in after])
        return found

    def _slot(self, draw: int) -> int:
        return self._slot_of(draw % self._batches)

    def _loss_of_step(self, draw: int) -> float:
        self._adapter.set_state(self._start)
        self._adapter.step(self._slot(draw), self._rate, self._step_count)
        self._adapter.synchronize()
        return self._adapter.loss()

    def _handed_state(self) -> Tensors:
        return {name: np.array(self._handed(tensor)) for name, tensor in self._adapter.state().items()}


class OpDropout(DropoutExam):
    """The masks of a single op are read off its own results."""

    def __init__(self, adapter: OpAdapter, slot_of: Callable[[int], int]) -> None:
        self._adapter, self._slot_of = adapter, slot_of
        self._drawn: list[Tensors] = []
        self._results: Tensors = {}

    def take_timed_steps(self) -> None:
        slot = self._slot_of(0)
        self._drawn.append(self._adapter.draw_masks(slot))
        self._results = copied(self._adapter.results())
        self._drawn.append(self._adapter.draw_masks(slot))

    def answers(self) -> Tensors:
        adapter = self._adapter
        found = draws(*self._drawn)
        adapter.supply_masks(filled(self._drawn[0]))
        adapter.step(self._slot_of(0), 0.0, 1)
        adapter.synchronize()
        for name, tensor in adapter.results().items():
            named = name if name.startswith("gradient/") else f"result/{name}"
            found[f"timed/drawn/{named}"] = self._results[name][np.newaxis]
            found[f"timed/taken/{named}"] = np.array(tensor)[np.newaxis]
        return found


def draws(first: Tensors, second: Tensors) -> Tensors:
    return {f"draws/{name}": np.stack([mask, second[name]]) for name, mask in first.items()}


def filled(masks: Tensors) -> Tensors:
    """Masks to supply: what was 0 before dropout stays 0, whether it is kept or not."""
    return {name: (mask != 0).astype(np.uint8) for name, mask in masks.items()}
