"""Mistakes in steps, slots, batches and evaluation that any adapter can make, and all mutants by name.

Each is a class around the adapter's own. scripts/mutants copies the files of MODULES next to a worker's and
lets the worker serve `mutated(adapter, name)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cheats
import numpy as np
import wrong_updates
from mutant import Mutant, Tensors, Undrained, first_half_twice, second_half_of_the_op

MODULES = ("mutant", "wrong", "wrong_updates", "cheats")


class SkipsEveryFourthUpdate(Mutant):
    """Every fourth step does nothing."""

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        if self.steps_seen % 4:
            super().step(slot, rate, step)


class ReadsOneSlotAfterTheThirdStep(Mutant):
    """From the fourth step on every step reads the first slot."""

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        super().step(slot if self.steps_seen <= 3 else 0, rate, step)


class KeepsOneSlot(Mutant):
    """All slots are one."""

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(0, inputs, labels)

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(0, rate, step)


class RollsLabelsOfLaterSlots(Mutant):
    """Labels of all slots but the first belong to other samples."""

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, inputs, np.roll(labels, 1) if slot else labels)


class StagesOnce(Mutant):
    """A slot keeps the first batch that it was given."""

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.staged: set[int] = getattr(self, "staged", set())
        if slot not in self.staged:
            super().stage(slot, inputs, labels)
        self.staged.add(slot)


class KeepsTheFirstRate(Mutant):
    """The learning rate never changes."""

    def step(self, slot: int, rate: float, step: int) -> None:
        self.first_rate = getattr(self, "first_rate", rate)
        super().step(slot, self.first_rate, step)


class RaisesTheRateLater(Mutant):
    """After the third step the learning rate is 1 % too large."""

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        super().step(slot, rate * (1.01 if self.steps_seen > 3 else 1), step)


class StopsUpdatingAfterTheThirdStep(Mutant):
    """From the fourth step on no parameter moves."""

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        super().step(slot, rate if self.steps_seen <= 3 else 0.0, step)


class StopsCountingAtTen(Mutant):
    """The bias correction stops at the tenth step."""

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(slot, rate, min(step, 10))


class CountsFromZero(Mutant):
    """The number of the step is one too small."""

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(slot, rate, max(1, step - 1))


class TellsAnEarlierLoss(Mutant):
    """The loss is that of the step before."""

    shows = ("first/loss",)

    def step(self, slot: int, rate: float, step: int) -> None:
        self.earlier = super().loss()
        super().step(slot, rate, step)

    def loss(self) -> float:
        return float(getattr(self, "earlier", super().loss()))


class EvaluatesWhatItStartedFrom(Mutant):
    """Evaluation sees the parameters from before the steps."""

    shows = ("last/logits",)

    def set_state(self, tensors: Tensors) -> None:
        self.started = {name: np.array(tensor) for name, tensor in tensors.items()}
        super().set_state(tensors)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        now = {name: np.array(tensor) for name, tensor in super().state().items()}
        super().set_state(self.started)
        logits = np.array(super().evaluate(inputs))
        super().set_state(now)
        return logits


class ComputesHalfTheBatch(Mutant):
    """The second half of a batch is the first again."""

    shows = ("first/moment/",)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, *first_half_twice(inputs.copy(), labels.copy()))


class ReversesSamples(Mutant):
    """Samples lie in reverse, labels do not."""

    shows = ("first/moment/",)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, np.ascontiguousarray(inputs[::-1]), labels)


class LosesTheLastPixel(Mutant):
    """The last element of each sample is zero."""

    shows = ("first/moment/",)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        inputs = inputs.copy()
        inputs.reshape(len(inputs), -1)[:, -1] = 0
        super().stage(slot, inputs, labels)


class ForgetsMoments(Mutant):
    """set_state() clears the moments."""

    shows = ("first/moment/",)

    def set_state(self, tensors: Tensors) -> None:
        moments = (".m", ".v", ".momentum", ".square")
        super().set_state({name: t for name, t in tensors.items() if not name.endswith(moments)})


class LosesAStepThatIsNotWaitedFor(Undrained):
    """Every seventh of the steps without a pause is lost."""

    shows = ("last/", "continuation/", "replay/")

    def step(self, slot: int, rate: float, step: int) -> None:
        self.waiting += 1
        if self.waiting % 7:
            super().step(slot, rate, step)


class KeepsEveryElement(Mutant):
    """What is timed drops nothing; what shows its masks draws as it should."""

    cell = "dropout"
    shows = ("timed/", "draws/")
    supplied = False
    filled = False

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.ones = {value.name: np.ones(value.shape, np.uint8) for value in program.masks}

    def supply_masks(self, masks: Tensors) -> None:
        self.supplied, self.filled = bool(masks), False
        super().supply_masks(masks)

    def step(self, slot: int, rate: float, step: int) -> None:
        if not self.supplied and not self.filled:
            super().supply_masks(self.ones)
            self.filled = True
        super().step(slot, rate, step)

    def draw_masks(self, slot: int) -> Tensors:
        if self.filled:
            super().supply_masks({})
            self.filled = False
        return super().draw_masks(slot)


class DrawsOneMask(Mutant):
    """Every step draws the same masks; what shows its masks draws as it should."""

    cell = "dropout"
    shows = ("timed/", "draws/")

    def step(self, slot: int, rate: float, step: int) -> None:
        super().seed_masks(1)
        super().step(slot, rate, step)


class InfersTheFirstSlot(Mutant):
    """Inference reads only the first slot."""

    cell = "infer"
    shows = ("logits",)

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(0, rate, step)


class InfersHalfTheBatch(ComputesHalfTheBatch):
    """The second half of a batch is the first again."""

    cell = "infer"
    shows = ("logits",)


class LeavesLaterSlotsZero(Mutant):
    """All slots but the first hold zeros."""

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, np.zeros_like(inputs) if slot else inputs, labels)


class ReusesTheFirstBatch(Mutant):
    """After a state was set, the first batch that is staged is kept."""

    cell = "loader"
    kept = False

    def set_state(self, tensors: Tensors) -> None:
        self.kept = False
        super().set_state(tensors)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        if not self.kept:
            super().stage(slot, inputs, labels)
        self.kept = True


class EvaluatesTheFirstWeights(EvaluatesWhatItStartedFrom):
    """Evaluation sees the parameters from before the steps, in a run that counts epochs."""

    cell = "epochs"


class ComputesHalfOfTheOp(Mutant):
    """The second half of a single op's first operand is zero."""

    cell = "op"
    shows = ("result/", "gradient/")

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.half = second_half_of_the_op(program, cell.task)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        inputs = inputs.copy()
        inputs.reshape(-1)[self.half] = 0
        super().stage(slot, inputs, labels)


MUTANTS: dict[str, type[Mutant]] = {
    kind.__name__: kind
    for names in (globals(), vars(wrong_updates), vars(cheats))
    for kind in list(names.values())
    if isinstance(kind, type) and issubclass(kind, Mutant) and kind.__module__ == names["__name__"]
}


def mutated(adapter: Callable[[], type], name: str) -> Callable[[], type]:
    """Return a function that returns the adapter's class with the mutant around it."""
    kind = MUTANTS[name]
    return lambda: type(f"{name}Adapter", (kind, adapter()), {"kind": kind})
