"""Mistakes that any adapter can make, and all mutants by name.

A mistake in the source of one adapter is in edits.py, one in its kernels in tests/workloads/planted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, islice
from typing import Any, ClassVar

import numpy as np
from cheats import CHEATS, CLOCK_REFUSED
from mutant import (
    Batch,
    Mutant,
    Rewritten,
    Step,
    Tensors,
    copied,
    first_half_twice,
    of,
    rounded,
    with_attribute,
    with_rule,
    without_half_of_the_op,
)

# What a mistake shows in.
LOGITS = ("logits", "run/")
MOMENTS = ("first/moment/",)
PARAMETERS = ("first/parameter/",)
LATER = ("last/", "continuation/")
DRAWS = ("timed/", "draws/")


class KeepsTheRateOfTheThirdStep(Mutant):
    """From the fourth step on the learning rate is that of the third."""

    cell = "decay"
    kept_rate = 0.0

    def changed_step(self, step: Step) -> Step:
        if self.since <= 3:
            self.kept_rate = step.rate
        return step._replace(rate=self.kept_rate)


class EvaluatesTheBatchBefore(Mutant):
    """Of evaluations in a row each but the first returns the logits of the one before, in a run that counts epochs."""

    cell = "epochs"
    shows = ("evaluation/",)
    before: np.ndarray | None = None

    def changed_step(self, step: Step) -> Step:
        self.before = None
        return step

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        now: np.ndarray = np.array(super().evaluate(inputs))
        before, self.before = self.before, now
        return now if before is None else before


class SpoilsLaterEvaluations(Mutant):
    """spoilt() changes the logits of evaluations in a row after the first, in a run that counts epochs."""

    cell = "padded"
    shows = ("evaluation/",)
    before: np.ndarray | None = None  # the logits of the evaluation before

    def spoilt(self, inputs: np.ndarray, logits: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def changed_step(self, step: Step) -> Step:
        self.before = None
        return step

    def set_state(self, tensors: Tensors) -> None:
        self.before = None
        super().set_state(tensors)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        logits: np.ndarray = np.array(super().evaluate(inputs))
        found = logits if self.before is None else self.spoilt(inputs, logits)
        self.before = logits
        return found


def is_padded(inputs: np.ndarray) -> bool:
    return not inputs[-1].any()


class CachesEvaluations(Mutant):
    """Samples that were evaluated before have the same logits until a state is set, in a run that counts epochs."""

    cell = "padded"
    shows = ("evaluation/",)

    def set_state(self, tensors: Tensors) -> None:
        self.kept: dict[bytes, np.ndarray] = {}
        super().set_state(tensors)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        known = inputs.tobytes()
        if known not in self.kept:
            self.kept[known] = np.array(super().evaluate(inputs))
        return self.kept[known]


class MovesStatisticsWhileItEvaluates(Mutant):
    """An evaluation moves running statistics by a thousandth."""

    cell = "norm"
    shows = ("first/running/", "evaluation/")

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        logits: np.ndarray = np.array(super().evaluate(inputs))
        now = copied(super().state())
        moved = {value.name: np.float32(1.001) * now[value.name] for value in self.network.states}
        super(Mutant, self).set_state(now | moved)  # type: ignore[misc]
        return logits


class AveragesItsLoss(Mutant):
    """The loss is the mean over the steps since a state was set."""

    def step(self, slot: int, rate: float, number: int) -> None:
        super().step(slot, rate, number)
        self.losses = [*(self.losses if self.since > 1 else []), float(super().loss())]

    def loss(self) -> float:
        return sum(self.losses) / len(self.losses)


class TellsAnEarlierLoss(Mutant):
    """The loss is that of the step before."""

    shows = ("first/loss",)

    def step(self, slot: int, rate: float, number: int) -> None:
        if self.steps:
            self.earlier = super().loss()
        super().step(slot, rate, number)

    def loss(self) -> float:
        return float(getattr(self, "earlier", super().loss()))


class EvaluatesWhatItStartedFrom(Mutant):
    """Evaluation sees the parameters from before the steps."""

    shows = ("last/logits",)
    only_statistics = False

    def set_state(self, tensors: Tensors) -> None:
        self.started = copied(tensors)
        super().set_state(tensors)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        now = copied(super().state())
        states = {value.name for value in self.network.states}
        kept = {name for name in self.started if name in states or not self.only_statistics}
        super(Mutant, self).set_state(now | {name: self.started[name] for name in kept})  # type: ignore[misc]
        logits = np.array(super().evaluate(inputs))
        super(Mutant, self).set_state(now)  # type: ignore[misc]
        return logits


class EvaluatesTheStepBefore(EvaluatesWhatItStartedFrom):
    """Evaluation sees the parameters from before the last step."""

    def step(self, slot: int, rate: float, number: int) -> None:
        self.started = copied(super().state())
        super().step(slot, rate, number)


class ForgetsMoments(Mutant):
    """set_state() clears the moments."""

    shows = MOMENTS

    def set_state(self, tensors: Tensors) -> None:
        moments = (".m", ".v", ".momentum", ".square")
        super().set_state({name: t for name, t in tensors.items() if not name.endswith(moments)})


class KeepsEveryElement(Mutant):
    """What is timed drops nothing; what shows its masks draws as it should."""

    cell = "dropout"
    shows = DRAWS
    supplied = False
    filled = False

    def supply_masks(self, masks: Tensors) -> None:
        self.supplied, self.filled = bool(masks), False
        super().supply_masks(masks)

    def step(self, slot: int, rate: float, number: int) -> None:
        if not self.supplied and not self.filled:
            super().supply_masks({m.name: np.ones(m.shape, np.uint8) for m in self.network.masks})
            self.filled = True
        super().step(slot, rate, number)

    def draw_masks(self, slot: int) -> Tensors:
        if self.filled:
            super().supply_masks({})
            self.filled = False
        return super().draw_masks(slot)


class DrawsOneMask(Mutant):
    """Every step draws the same masks; what shows its masks draws as it should."""

    cell = "dropout"
    shows = DRAWS

    def step(self, slot: int, rate: float, number: int) -> None:
        super().seed_masks(1)
        super().step(slot, rate, number)


class DrawsItsOwnMasks(Mutant):
    """Masks drawn by numpy, changed by altered()."""

    cell = "dropout"
    shows = DRAWS
    supplied = False

    def altered(self, mask: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.random = np.random.default_rng(1)
        self.rates = {
            name: node["attributes"]["rate"]
            for node in self.document["training"]["nodes"]
            if "rate" in node["attributes"]
            for name in node["inputs"]
        }

    def seed_masks(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def supply_masks(self, masks: Tensors) -> None:
        self.supplied = bool(masks)
        super().supply_masks(masks)

    def draw_masks(self, slot: int) -> Tensors:
        return {
            mask.name: self.altered(
                (self.random.random(mask.shape) >= self.rates[mask.name]).astype(np.uint8)
            )
            for mask in self.network.masks
        }

    def step(self, slot: int, rate: float, number: int) -> None:
        if not self.supplied:
            super().supply_masks(self.draw_masks(slot))
        super().step(slot, rate, number)


def for_half_of_the_rows(_: Any, mask: np.ndarray) -> np.ndarray:
    half = len(mask) // 2
    mask[half : 2 * half] = mask[:half]
    return mask


def for_whole_channels(_: Any, mask: np.ndarray) -> np.ndarray:
    mask[:] = mask.reshape(*mask.shape[:2], -1)[:, :, :1].reshape(*mask.shape[:2], *[1] * (mask.ndim - 2))
    return mask


class KeepsAView(Mutant):
    """A slot keeps the caller's arrays, not copies of them."""

    shows = ("first/", "last/")
    viewed = (True, True)  # samples, labels

    def __init__(self, program: Any, cell: Any) -> None:
        self.views: dict[int, tuple[np.ndarray, ...]] = {}
        super().__init__(program, cell)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        given = zip((inputs, labels), self.viewed, strict=True)
        self.views[slot] = tuple(array if viewed else array.copy() for array, viewed in given)
        super().stage(slot, inputs, labels)

    def read_again(self, slot: int) -> None:
        super(Mutant, self).stage(slot, *self.views[slot])  # type: ignore[misc]

    def step(self, slot: int, rate: float, number: int) -> None:
        self.read_again(slot)
        super().step(slot, rate, number)

    def prefill(self, slot: int) -> None:
        self.read_again(slot)
        super().prefill(slot)  # type: ignore[misc]


class RunsOneStepLate(KeepsAView):
    """A queue holds a step until the next one, and reads the caller's batch when it runs it."""

    cell = "loader"
    shows = ("first/", "replay/")
    queued: Step | None = None

    def flush(self) -> None:
        queued, self.queued = self.queued, None
        if queued:
            self.read_again(queued.slot)
            super(Mutant, self).step(*queued)  # type: ignore[misc]

    def step(self, slot: int, rate: float, number: int) -> None:
        self.flush()
        self.queued = Step(slot, rate, number)

    def synchronize(self) -> None:
        self.flush()
        super().synchronize()

    def set_state(self, tensors: Tensors) -> None:
        self.flush()
        super().set_state(tensors)


class ClearsMomentsAfterAWait(Mutant):
    """The first step after a wait has moments of zero, as if each block were a training of its own."""

    shows = ("continuation/", "replay/")
    waited = False

    def synchronize(self) -> None:
        self.waited = True
        super().synchronize()

    def set_state(self, tensors: Tensors) -> None:
        self.waited = False
        super().set_state(tensors)

    def changed_step(self, step: Step) -> Step:
        if self.waited:
            now = copied(super().state())
            super(Mutant, self).set_state(
                {n: 0 * t if n.endswith((".m", ".v")) else t for n, t in now.items()}
            )  # type: ignore[misc]
        self.waited = False
        return step


class OwnLoader(Mutant):
    """loaded() changes what the framework's own loader gives."""

    cell = "native"
    shows = ("loader/",)
    python_only = True

    def __init__(self, program: Any, cell: Any) -> None:
        self.kept: dict[int, list[Any]] = {}  # by data set
        super().__init__(program, cell)

    def loaded(self, batches: Iterator[Any], samples: Any) -> Iterator[Any]:
        raise NotImplementedError

    def loader(self, samples: Any) -> Iterator[Any]:
        return self.loaded(iter(super().loader(samples)), samples)  # type: ignore[misc]


def first_pass(m: OwnLoader, batches: Iterator[Any], samples: Any) -> list[Any]:
    return m.kept.setdefault(id(samples), m.kept.get(id(samples)) or list(batches))


class StepsOnTheBatchTakenBefore(Mutant):
    """A step reads the batch that the own loader gave before the last one, as of two buffers the wrong one."""

    cell = "native"
    shows = ("loader/losses",)
    python_only = True
    taken_batches: tuple[Any, ...] = ()  # the last two

    def take(self, batch: Any) -> None:
        self.taken_batches = (*self.taken_batches[-1:], batch)
        super().take(batch)  # type: ignore[misc]

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.taken_batches = ()
        super().stage(slot, inputs, labels)

    def step(self, slot: int, rate: float, number: int) -> None:
        for batch in self.taken_batches[:1]:
            super(Mutant, self).take(batch)  # type: ignore[misc]
        super().step(slot, rate, number)
        for batch in self.taken_batches[1:]:
            super(Mutant, self).take(batch)  # type: ignore[misc]


class LosesAStepOfTheLoader(Mutant):
    """Every fifth step on a batch of the own loader is lost."""

    cell = "native"
    shows = ("loader/losses",)
    python_only = True
    took = False

    def take(self, batch: Any) -> None:
        self.took = True
        super().take(batch)  # type: ignore[misc]

    def changed_step(self, step: Step) -> Step | None:
        lost, self.took = self.took and self.steps % 5 == 0, False
        return None if lost else step


class TakesLabelsOfTheBatchBefore(Mutant):
    """A batch gets the labels of the one that was staged before it."""

    shows = MOMENTS

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        before, self.labels = getattr(self, "labels", labels), labels.copy()
        super().stage(slot, inputs, before)


class TakesTheRateOfTheStepBefore(Mutant):
    """Each step has the learning rate of the one before."""

    before = 0.0

    def changed_step(self, step: Step) -> Step:
        rate, self.before = self.before or step.rate, step.rate
        return step._replace(rate=rate)


class GivesTheResultsOfTheStepBefore(Mutant):
    """The results are those of the step before, in inference."""

    cell = "infer"
    shows = LOGITS
    before: Tensors | None = None

    def step(self, slot: int, rate: float, number: int) -> None:
        if self.steps:
            self.before = copied(super().results())
        super().step(slot, rate, number)

    def results(self) -> Tensors:
        found: Tensors = super().results()
        return self.before or found


class DecodesTheFirstSlot(Mutant):
    """After the prompt, tokens are those of the first slot."""

    cell = "decode"
    python_only = True
    shows = LOGITS

    def next_token(self, slot: int) -> None:
        super().next_token(0)  # type: ignore[misc]


class DecodesThePromptBefore(Mutant):
    """The caches are filled from the prompts of the slot before."""

    cell = "decode"
    python_only = True
    shows = LOGITS
    before: int | None = None

    def prefill(self, slot: int) -> None:
        before, self.before = self.before, slot
        super().prefill(slot if before is None else before)  # type: ignore[misc]


class KeepsARateThatIsNear(Mutant):
    """A learning rate is not changed if the new one is within a third of it."""

    used = 0.0

    def changed_step(self, step: Step) -> Step:
        if abs(step.rate - self.used) > self.used / 3:
            self.used = step.rate
        return step._replace(rate=self.used)


class DividesByTheLargestSquare(Rewritten):
    """AMSGrad: divides by the root of the largest mean of squares, which is not part of the state."""

    shows = LATER

    def set_state(self, tensors: Tensors) -> None:
        self.largest: Tensors = {}
        super().set_state(tensors)

    def rewritten(self) -> Tensors:
        found = {}
        for name in self.shapes:
            m, v = (np.float64(self.after[name + moment]) for moment in (".m", ".v"))
            self.largest[name] = np.maximum(self.largest.get(name, 0), v)
            found[name] = self.moved(name, m, self.largest[name])
        return found


class DoesNotWait(Mutant):
    """It does not wait for the steps of an inference."""

    cell = "long-infer"
    codes = CLOCK_REFUSED
    only_in = ("jax", "mxnet")  # the others compute before the call of a step returns, on a CPU
    survives_in: ClassVar = {
        "jax": "on a quiet machine little is left to wait for: it hides less than a tenth of the time",
        "mxnet": "a short inference may hide less than a tenth of its time",
    }

    def synchronize(self) -> None:
        self.waiting = 0


def without_moves(samples: Any) -> Any:
    samples.rows[:, 1:] = 0
    return samples


def mirrored(samples: Any) -> Any:
    samples.rows[:, 3] = 1
    return samples


def without_the_last_pixel(_: Mutant, batch: Batch) -> Batch:
    batch.inputs.reshape(len(batch.inputs), -1)[:, -1] = 0
    return batch


def with_decaying_biases(m: Rewritten) -> Tensors:
    found: Tensors = {}
    for name, shape in m.shapes.items():
        if len(shape) == 1:
            found |= m.adam(name, m.gradient(name) + m.network.optimizer.weight_decay * m.before[name])
    return found


def with_gradients_in(bits: int) -> Callable[[Rewritten], Tensors]:
    def rewritten(m: Rewritten) -> Tensors:
        found: Tensors = {}
        for name in m.shapes:
            found |= m.adam(name, np.float64(rounded(m.gradient(name), bits)))
        return found

    return rewritten


def without_faint_gradients(m: Rewritten) -> Tensors:
    found: Tensors = {}
    for name in m.shapes:
        gradient = m.gradient(name)
        faint = np.abs(gradient) < 1e-4 * np.abs(gradient).max()
        without = m.adam(name, np.zeros_like(gradient))
        found |= {each: np.where(faint, tensor, m.after[each]) for each, tensor in without.items()}
    return found


def without_the_gradient_of_a_bias(m: Rewritten) -> Tensors:
    name = [name for name, shape in m.shapes.items() if len(shape) == 1][-1]
    return m.adam(name, np.zeros(m.shapes[name]))


def with_clipped_gradients(m: Rewritten) -> Tensors:
    gradients = {name: m.gradient(name) for name in m.shapes}
    norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
    found: Tensors = {}
    for name, gradient in gradients.items():
        found |= m.adam(name, gradient / max(1.0, norm))
    return found


def with_first_layer_before(m: Rewritten) -> Tensors:
    first = tuple(list(m.shapes)[:2])
    return {name: t for name, t in m.before.items() if name.startswith(first) and m.since > 3}


MISTAKES: dict[str, type[Mutant]] = {
    # Steps.
    "SkipsEveryFourthUpdate": of("Every fourth step does nothing.", changed_step=lambda m, s: s if m.steps % 4 else None),
    "ReadsOneSlotAfterTheThirdStep": of("From the fourth step on every step reads the first slot.", changed_step=lambda m, s: s._replace(slot=s.slot if m.steps <= 3 else 0)),
    "KeepsTheFirstRate": of("The learning rate never changes.", changed_step=lambda m, s: s._replace(rate=m.first_rate)),
    "RaisesTheRateLater": of("After the third step the learning rate is 1 % too large.", changed_step=lambda m, s: s._replace(rate=s.rate * (1.01 if m.steps > 3 else 1))),
    "KeepsTheRateOfTheThirdStep": KeepsTheRateOfTheThirdStep,
    "StopsUpdatingAfterTheThirdStep": of("From the fourth step on no parameter moves.", changed_step=lambda m, s: s._replace(rate=s.rate if m.steps <= 3 else 0.0)),
    "StopsCountingAtTen": of("The bias correction stops at the tenth step.", changed_step=lambda _, s: s._replace(number=min(s.number, 10))),
    "StopsCountingAtSixHundred": of("The bias correction stops at step 600.", changed_step=lambda _, s: s._replace(number=min(s.number, 600)), shows=(*PARAMETERS, "last/")),
    "StopsAtSixHundred": of("From step 601 on no parameter moves.", changed_step=lambda _, s: s._replace(rate=s.rate if s.number <= 600 else 0.0), shows=(*PARAMETERS, "last/")),
    "LeavesOutLaterSteps": of("From step 601 on nine of ten steps do nothing.", changed_step=lambda _, s: s if s.number <= 600 or s.number % 10 == 0 else None, shows=("first/", "last/")),
    "TakesATenthOfTheRateLater": of("From step 601 on the learning rate is a tenth.", changed_step=lambda _, s: s._replace(rate=s.rate * (1 if s.number <= 600 else 0.1)), shows=(*PARAMETERS, "last/")),
    "RoundsItsRates": of("The learning rate is rounded to five decimals.", changed_step=lambda _, s: s._replace(rate=round(s.rate, 5))),
    "LeavesOutFaintRates": of("A step with a learning rate below 0.00004 does nothing.", changed_step=lambda _, s: s if s.rate == 0 or s.rate >= 4e-5 else None),
    "KeepsARateThatIsNear": KeepsARateThatIsNear,
    "CountsFromZero": of("The number of the step is one too small.", changed_step=lambda _, s: s._replace(number=max(1, s.number - 1)), shows=(*PARAMETERS, "last/")),
    "NeverCorrectsItsBias": of("Adam does not correct the bias of its moments.", changed_step=lambda _, s: s._replace(number=s.number + 1_000_000), shows=PARAMETERS),
    "LosesAStepThatIsNotWaitedFor": of("Every seventh of the steps without a pause is lost.", changed_step=lambda m, s: s if m.waiting % 7 else None, shows=(*LATER, "replay/")),
    "InfersTheFirstSlot": of("Inference reads only the first slot.", changed_step=lambda _, s: s._replace(slot=0), cell="infer", shows=LOGITS),
    "TellsAnEarlierLoss": TellsAnEarlierLoss,
    "AveragesItsLoss": AveragesItsLoss,
    "CountsInBytes": of("The number of the step is counted in eight bits.", changed_step=lambda _, s: s._replace(number=max(1, s.number % 256)), shows=(*PARAMETERS, "last/")),
    "StopsCountingAt2048": of("The number of the step is counted in fp16, in which one more than 2048 is 2048.", changed_step=lambda _, s: s._replace(number=min(s.number, 2048)), shows=(*PARAMETERS, "last/")),
    "CountsInSixteenBits": of("The number of the step is counted in sixteen bits.", changed_step=lambda _, s: s._replace(number=max(1, s.number % 65536)), shows=(*PARAMETERS, "last/")),
    "CountsSinceItWaited": of("The number of the step is counted from the last wait.", changed_step=lambda m, s: s._replace(number=m.waiting), shows=(*PARAMETERS, "last/")),
    "ClearsMomentsAfterAWait": ClearsMomentsAfterAWait,
    "TakesTheRateOfTheStepBefore": TakesTheRateOfTheStepBefore,
    "GivesTheResultsOfTheStepBefore": GivesTheResultsOfTheStepBefore,
    "DecodesTheFirstSlot": DecodesTheFirstSlot,
    "DoesNotWait": DoesNotWait,
    "DoesNotWaitForTokens": of("It does not wait for the tokens of a generation.", DoesNotWait, cell="decode", python_only=True, only_in=("jax",)),
    "DoesNotWaitForAnOp": of("It does not wait for a single op.", DoesNotWait, cell="long-op", survives_in={"jax": DoesNotWait.survives_in["jax"]}),
    "DecodesThePromptBefore": DecodesThePromptBefore,
    # Slots and batches.
    "KeepsOneSlot": of("All slots are one.", changed_batch=lambda _, b: b._replace(slot=0), changed_step=lambda _, s: s._replace(slot=0)),
    "TakesLabelsOfTheBatchBefore": TakesLabelsOfTheBatchBefore,
    "RollsLabelsOfLaterSlots": of("Labels of all slots but the first belong to other samples.", changed_batch=lambda _, b: b._replace(labels=np.roll(b.labels, 1)) if b.slot else b),
    "LeavesLaterSlotsZero": of("All slots but the first hold zeros.", changed_batch=lambda _, b: b._replace(inputs=0 * b.inputs) if b.slot else b),
    "StagesOnce": of("A slot keeps the first batch that it was given.", changed_batch=lambda m, b: None if b.slot in m.staged else b),
    "ReusesTheFirstBatch": of("After a state was set, the first batch that is staged is kept.", changed_batch=lambda m, b: None if m.batches else b, cell="loader"),
    "ComputesHalfTheBatch": of("The second half of a batch is the first again.", changed_batch=first_half_twice, shows=MOMENTS),
    "InfersHalfTheBatch": of("The second half of a batch is the first again, in inference.", changed_batch=first_half_twice, cell="infer", shows=LOGITS),
    "ReversesSamples": of("Samples lie in reverse, labels do not.", changed_batch=lambda _, b: b._replace(inputs=b.inputs[::-1]), shows=MOMENTS),
    "LosesTheLastPixel": of("The last element of each sample is zero.", changed_batch=without_the_last_pixel, shows=MOMENTS),
    "ComputesHalfOfTheOp": of("The second half of a single op's first operand is zero.", changed_batch=without_half_of_the_op, cell="op", shows=("result/", "gradient/", "run/")),
    "KeepsAViewOfItsBatches": KeepsAView,
    "KeepsAViewOfItsSamples": of("A slot keeps the caller's samples, and a copy of their labels.", KeepsAView, viewed=(True, False)),
    "KeepsAViewOfItsLabels": of("A slot keeps the caller's labels, and a copy of their samples.", KeepsAView, viewed=(False, True)),
    "InfersAView": of("A slot keeps the caller's arrays, in inference.", KeepsAView, cell="infer", shows=LOGITS),
    "DecodesAView": of("A slot keeps the caller's prompts.", KeepsAView, cell="decode", shows=LOGITS, python_only=True),
    "ReadsAViewOfItsTexts": of("A slot keeps the caller's texts.", KeepsAView, cell="text"),
    "RunsOneStepLate": RunsOneStepLate,
    "LosesTheThirteenthSlot": of("Of 16 slots, number 13 holds zeros.", changed_batch=lambda _, b: b._replace(inputs=0 * b.inputs) if b.slot == 13 else b, cell="slots"),
    "SharesTheMemoryOfSlots": of("16 slots share the memory of 8.", changed_batch=lambda _, b: b._replace(slot=b.slot % 8), changed_step=lambda _, s: s._replace(slot=s.slot % 8), cell="slots"),
    "ReadsTheFirstSlotLater": of("From step 601 on every step reads the first slot.", changed_step=lambda _, s: s._replace(slot=s.slot if s.number <= 600 else 0)),
    "MistakesTheLastClass": of("The last class is taken for the one before it.", changed_batch=lambda _, b: b._replace(labels=np.minimum(b.labels, 8)), shows=MOMENTS),
    # The framework's own loader.
    "StepsOnTheBatchTakenBefore": StepsOnTheBatchTakenBefore,
    "LosesAStepOfTheLoader": LosesAStepOfTheLoader,
    "LoadsTenBatchesForEver": of("The own loader gives its first ten batches for ever.", OwnLoader, loaded=lambda m, b, s: cycle(first_pass(m, b, s)[:10])),
    "LoadsEachBatchTwice": of("The own loader gives each batch twice.", OwnLoader, loaded=lambda _, b, __: (batch for batch in b for _ in range(2))),
    "LoadsHalfOfTheSamples": of("A pass of the own loader ends after half of its batches.", OwnLoader, loaded=lambda m, b, s: islice(b, len(s) // m.network.batch // 2)),
    "LoadsInOneOrder": of("Every pass of the own loader is the first one.", OwnLoader, loaded=lambda m, b, s: iter(first_pass(m, b, s))),
    "DoesNotAugment": of("Samples of the own loader are not cropped or mirrored.", OwnLoader, loader=lambda m, s: super(OwnLoader, m).loader(without_moves(s)), cell="augmented"),
    "MirrorsEverySample": of("Every sample of the own loader is mirrored.", OwnLoader, loader=lambda m, s: super(OwnLoader, m).loader(mirrored(s)), cell="augmented"),
    # State, evaluation and masks.
    "ForgetsMoments": ForgetsMoments,
    "EvaluatesWhatItStartedFrom": EvaluatesWhatItStartedFrom,
    "EvaluatesTheFirstWeights": of("Evaluation sees the parameters from before the steps, in a run that counts epochs.", EvaluatesWhatItStartedFrom, cell="epochs"),
    "EvaluatesTheStepBefore": EvaluatesTheStepBefore,
    "EvaluatesTheFirstStatistics": of("Evaluation has the running statistics from before the steps.", EvaluatesWhatItStartedFrom, only_statistics=True, cell="norm"),
    "EvaluatesTheBatchBefore": EvaluatesTheBatchBefore,
    "EvaluatesThePaddedBatchARowOff": of("The last batch of a split, which is padded, is evaluated a row off.", SpoilsLaterEvaluations, spoilt=lambda _, inputs, logits: np.roll(logits, 1, 0) if is_padded(inputs) else logits),
    "EvaluatesStaleRows": of("The last batch of a split, which is padded, has the logits of the batch before.", SpoilsLaterEvaluations, spoilt=lambda m, inputs, logits: m.before if is_padded(inputs) else logits),
    "LeaksFromTheEvaluationBefore": of("A tenth of the logits is that of the batch before.", SpoilsLaterEvaluations, spoilt=lambda m, _, logits: np.float32(0.9) * logits + np.float32(0.1) * m.before),
    "DropsWhileItEvaluates": of("A tenth of each sample is zero when it is evaluated.", SpoilsLaterEvaluations, spoilt=lambda m, inputs, _: super(Mutant, m).evaluate(np.where(np.random.default_rng(1).random(inputs.shape) < 0.1, np.float32(0), inputs))),
    "CachesEvaluations": CachesEvaluations,
    "MovesStatisticsWhileItEvaluates": MovesStatisticsWhileItEvaluates,
    "KeepsEveryElement": KeepsEveryElement,
    "DrawsForHalfOfTheRows": of("The second half of the rows has the masks of the first.", DrawsItsOwnMasks, altered=for_half_of_the_rows),
    "DrawsForWholeChannels": of("A channel is dropped as a whole.", DrawsItsOwnMasks, altered=for_whole_channels),
    "DrawsOneMask": DrawsOneMask,
    # Constants.
    "HasNoEpsilon": of("Adam's epsilon is nearly 0.", edit=with_rule(epsilon=1e-15), shows=PARAMETERS),  # 0 / 0 would be found without an exam
    "HasAnotherBeta2": of("The decay of the mean of squares is 0.99.", edit=with_rule(beta2=0.99), shows=MOMENTS),
    "DecouplesItsDecay": of("Weight decay is that of AdamW: outside of the gradient.", edit=with_rule(kind="adamw"), cell="decay", shows=MOMENTS),
    "DoesNotDecay": of("Weight decay is left out.", edit=with_rule(weight_decay=0.0), cell="decay", shows=MOMENTS),
    "DoesNotDecayFaintly": of("AdamW's weight decay of 0.001 is left out.", edit=with_rule(weight_decay=0.0), cell="faint", shows=PARAMETERS),
    "RaisesTheEpsilonOfNorms": of("The epsilon of batch norms is ten times as large.", edit=with_attribute("batch_norm", "epsilon", lambda known: 10 * known), cell="norm", shows=("evaluation/", "first/")),
    "ReversesTheMomentumOfNorms": of("Running statistics have the momentum the other way round.", edit=with_attribute("batch_norm", "momentum", lambda known: 1 - known), cell="norm", shows=("first/running/",)),
    # Updates.
    "DecaysBiases": of("Biases decay, too.", Rewritten, rewritten=with_decaying_biases, cell="decay", shows=MOMENTS),
    "KeepsSquaresInBf16": of("The means of squares are stored in bf16.", Rewritten, rewritten=lambda m: {name: rounded(t, 7) for name, t in m.after.items() if name.endswith(".v")}, shows=MOMENTS),
    "DividesByTheLargestSquare": DividesByTheLargestSquare,
    "RoundsGradients": of("Gradients are rounded to bf16.", Rewritten, rewritten=with_gradients_in(7), shows=MOMENTS),
    "RoundsGradientsLess": of("Gradients are rounded to tf32.", Rewritten, rewritten=with_gradients_in(10), shows=MOMENTS),
    "ZeroesFaintGradients": of("Elements of a gradient below a ten-thousandth of its largest are zero.", Rewritten, rewritten=without_faint_gradients, shows=MOMENTS),
    "ClipsItsGradients": of("Gradients are scaled to a norm of 1 if theirs is larger.", Rewritten, rewritten=with_clipped_gradients, shows=(*MOMENTS, "last/", "replay/")),
    "DropsTheGradientOfABias": of("The last bias gets no gradient.", Rewritten, rewritten=without_the_gradient_of_a_bias, shows=MOMENTS),
    "FreezesItsFirstLayer": of("From the fourth step on the first weight and its bias do not move.", Rewritten, rewritten=with_first_layer_before, shows=LATER),
    "KeepsRunningStatistics": of("From the fourth step on running statistics are not updated.", Rewritten, rewritten=lambda m: {v.name: m.before[v.name] for v in m.network.states if m.steps > 3}, cell="norm", shows=("first/running/",)),
}  # fmt: skip
MUTANTS = MISTAKES | CHEATS
