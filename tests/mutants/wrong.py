"""Mistakes and cheats that any adapter can make, each as a class around the adapter's own.

scripts/mutants copies this file next to a worker's and lets the worker serve `mutated(adapter, name)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Mutant:
    """A mutant's docstring describes the mistake; `cell` is the cell that shows it.

    `cheats`: it tries to deceive the check.
    `shows`: a mistake is found if the name of a wrong tensor begins with one of these.
    `survives`: why the check cannot find it, if that is known.
    """

    cell = "train"
    cheats = False
    shows: tuple[str, ...] = ("last/",)
    survives = ""
    task: str

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)  # type: ignore[call-arg]
        self.trains = cell.task == "train"
        self.steps_seen = 0
        self.rows = program.batch


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

    def set_state(self, tensors: dict[str, np.ndarray]) -> None:
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
        half = len(labels) // 2
        inputs, labels = inputs.copy(), labels.copy()
        inputs[half : 2 * half], labels[half : 2 * half] = inputs[:half], labels[:half]
        super().stage(slot, inputs, labels)


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

    def set_state(self, tensors: dict[str, np.ndarray]) -> None:
        moments = (".m", ".v", ".momentum", ".square")
        super().set_state({name: t for name, t in tensors.items() if not name.endswith(moments)})


class Undrained(Mutant):
    """Its count of steps begins again when a caller waits for it."""

    waiting = 0

    def synchronize(self) -> None:
        self.waiting = 0
        super().synchronize()


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

    def supply_masks(self, masks: dict[str, np.ndarray]) -> None:
        self.supplied, self.filled = bool(masks), False
        super().supply_masks(masks)

    def step(self, slot: int, rate: float, step: int) -> None:
        if not self.supplied and not self.filled:
            super().supply_masks(self.ones)
            self.filled = True
        super().step(slot, rate, step)

    def draw_masks(self, slot: int) -> dict[str, np.ndarray]:
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


class InfersNothing(Mutant):
    """The timed step of an inference does nothing after the first."""

    cell = "infer"
    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        if not getattr(self, "done", False):
            super().step(slot, rate, step)
        self.done = True


class InfersHalfTheBatch(ComputesHalfTheBatch):
    """The second half of a batch is the first again."""

    cell = "infer"
    shows = ("logits",)


class SkipsWhileTimed(Mutant):
    """Steps do nothing until a state with moments is set, which only the exam does."""

    cheats = True
    serious = False

    def set_state(self, tensors: dict[str, np.ndarray]) -> None:
        self.serious = self.serious or any(name.endswith(".v") for name in tensors)
        super().set_state(tensors)

    def step(self, slot: int, rate: float, step: int) -> None:
        if self.serious or not getattr(self, "once", False):
            super().step(slot, rate, step)
        self.once = True


class SkipsLongRuns(Undrained):
    """After two steps without a pause every second step does nothing."""

    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        self.waiting += 1
        if self.waiting <= 2 or self.waiting % 2:
            super().step(slot, rate, step)


class SkipsAtTheRateOfTheRun(Undrained):
    """Every second of the steps without a pause does nothing, at the first learning rate of the run."""

    cheats = True
    first_rate = 0.0

    def step(self, slot: int, rate: float, step: int) -> None:
        self.waiting += 1
        self.first_rate = self.first_rate or rate
        if self.waiting == 1 or rate != self.first_rate or self.waiting % 2:
            super().step(slot, rate, step)


class TellsTheStateItWasGiven(Mutant):
    """state() returns the arguments of set_state(): nothing was ever updated."""

    cheats = True

    def set_state(self, tensors: dict[str, np.ndarray]) -> None:
        self.given = {name: np.array(tensor) for name, tensor in tensors.items()}
        super().set_state(tensors)

    def state(self) -> dict[str, np.ndarray]:
        return {name: self.given.get(name, tensor) for name, tensor in super().state().items()}


class SavesWorkByTheRate(Mutant):
    """Steps with a learning rate that the exam does not use are skipped every other time."""

    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        if step >= 20 or self.steps_seen % 2:
            super().step(slot, rate, step)


class ChangesItsQuestions(Mutant):
    """It writes to a file of the exam."""

    cheats = True

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        with (cell.folder / "check/batches.json").open("a") as file:
            file.write(" ")  # it stays valid


class HalvesTheBatchesOfARun(ComputesHalfTheBatch):
    """The second half of a batch is the first again, unless rows repeat, which happens only in an exam."""

    cheats = True
    survives = "it recognizes the exam by its batches"

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        distinct = len(np.unique(np.round(inputs.reshape(len(inputs), -1).sum(axis=1), 2)))
        stage = super().stage if 2 * distinct > len(inputs) else super(ComputesHalfTheBatch, self).stage
        stage(slot, inputs, labels)


class InfersEachBatchOnce(Mutant):
    """An inference on a batch that did not change does nothing."""

    cell = "infer"
    cheats = True
    survives = "it remembers a result that is right"

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.fresh = getattr(self, "fresh", set()) | {slot}
        super().stage(slot, inputs, labels)

    def step(self, slot: int, rate: float, step: int) -> None:
        if slot in self.fresh:
            super().step(slot, rate, step)
        self.fresh.discard(slot)


MUTANTS: dict[str, type[Mutant]] = {
    kind.__name__: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Mutant)
}
for base in (Mutant, Undrained):
    del MUTANTS[base.__name__]


def mutated(adapter: Callable[[], type], name: str) -> Callable[[], type]:
    """Return a function that returns the adapter's class with the mutant around it."""
    return lambda: type(f"{name}Adapter", (MUTANTS[name], adapter()), {})
