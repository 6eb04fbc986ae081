"""Cheats that any adapter can try: they deceive the check on purpose.

A name such as c_noop, in parentheses, is that of a cheat that the check of an earlier version missed.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from assay_worker.program import Program
from assay_worker.tensors import read_tensors, write_tensors
from mutant import (
    Batch,
    Mutant,
    OfLaterForks,
    Rewritten,
    Step,
    Tensors,
    TwoBatches,
    copied,
    first_half_twice,
    has_moments,
    in_bf16,
    of,
    rounded,
    without_half_of_the_op,
)

CLOCK_REFUSED = ("clock_refused",)


class ComputesOnlyForwardLater(Mutant):
    """From the fourth step on it computes the loss and no gradient (c_forward_only)."""

    own_loss: float | None = None

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.held: dict[int, tuple[np.ndarray, np.ndarray]] = getattr(self, "held", {})
        self.held[slot] = inputs.copy(), labels.copy()
        super().stage(slot, inputs, labels)

    def changed_step(self, step: Step) -> Step | None:
        self.own_loss = None
        if self.since <= 3:
            return step
        inputs, labels = self.held[step.slot]
        logits = super().evaluate(inputs)
        shifted = np.float64(logits) - logits.max(-1, keepdims=True)
        chosen = np.take_along_axis(shifted, labels[:, None], -1)[:, 0]
        self.own_loss = math.fsum(np.log(np.exp(shifted).sum(-1)) - chosen) / len(labels)
        return None

    def loss(self) -> float:
        return float(super().loss()) if self.own_loss is None else self.own_loss


class ComputesOneSampleUntilItIsExamined(TwoBatches):
    """Every row is the first, until the exam's call that supplies masks of dropout (c_check_flag)."""

    examined = False

    def altered(self, batch: Batch) -> Batch:
        for array in batch[1:]:
            array[1:] = array[:1]
        return batch

    def other_batch(self) -> bool:
        return not self.examined

    def supply_masks(self, masks: Tensors) -> None:
        self.examined = True
        super().supply_masks(masks)


class HalvesTheBatchesOfAStart(TwoBatches):
    """Half of a batch after a state without moments was set, but not after the run has ended."""

    altered = first_half_twice
    halves = False

    def other_batch(self) -> bool:
        return self.halves

    def set_state(self, tensors: Tensors) -> None:
        self.halves = not has_moments(tensors)
        super().set_state(tensors)

    def memory(self) -> dict[str, int]:
        found = super().memory()
        self.halves = self.halves and self.reports < 2
        return found


class StepsAfterTheClock(Mutant):
    """Steps are queued, and done when it reports its memory, after the clock has stopped (c_deferred)."""

    codes = ("differs_from_oracle", *CLOCK_REFUSED)

    def set_state(self, tensors: Tensors) -> None:
        self.queue: list[Step] = []
        super().set_state(tensors)

    def changed_step(self, step: Step) -> Step | None:
        if self.reports != 1:
            return step
        self.queue.append(step)
        return None

    def memory(self) -> dict[str, int]:
        found = super().memory()  # the second report: from now on steps are done at once
        for step in self.queue:
            super().step(*step)
        self.queue.clear()
        return found


class EndsItsBlocksFirst(Mutant):
    """A block ends before its steps, which run before the next block begins (c_outside_block)."""

    codes = ("differs_from_oracle", *CLOCK_REFUSED)
    python_only = True
    own_loop = True

    def train(self, loop: Any, samples: Any) -> None:
        resident = loop.supply.layout.resident_batches
        loss = super().loss()
        while (block := loop.next_block()) is not None:
            rows = loop.rows(block)
            loop.supply.enqueued()
            loop.supply.end_block(loss)
            for row, (rate, step) in enumerate(rows, block.first_step):
                super().step(row % resident, rate, step)
            super().synchronize()
            loss = super().loss()


class StepsBeforeTheClock(Mutant):
    """All steps run before the first block begins, and the blocks report their losses."""

    codes = ("faster_than_machine",)
    python_only = True
    own_loop = True

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        clock = cell.request["clock"]
        self.planned = clock["warm_up"]["min_steps"] + clock["steps"]

    def train(self, loop: Any, samples: Any) -> None:
        resident = loop.supply.layout.resident_batches
        losses = []
        for row, (rate, step) in enumerate(loop.supply.schedule[: self.planned]):
            super().step(row % resident, rate, step)
            super().synchronize()
            losses.append(super().loss())
        while (block := loop.next_block()) is not None:
            loop.rows(block)
            loop.supply.enqueued()
            loop.supply.end_block(losses[block.first_step + block.steps - 1])


class ShortensItsBlocks(Mutant):
    """It rewrites the clock's file: blocks are a tenth as long, and undisturbed (c_clock_json)."""

    cell = "long"
    codes = CLOCK_REFUSED
    alone = True  # a process that was forked elsewhere is another process for the conductor
    times = 10

    def memory(self) -> dict[str, int]:
        clock: Path = self.folder / "results/clock.json"
        if clock.exists():
            document = json.loads(clock.read_text())
            for block in document["blocks"]:
                block["end_ns"] = block["begin_ns"] + (block["end_ns"] - block["begin_ns"]) // self.times
                for part in ("enqueue_ns", "wait_ns", "cpu_ns"):
                    block[part] = block.get(part, 0) // self.times
            self.claim(document)
            clock.write_text(json.dumps(document))
        return super().memory()

    def claim(self, document: dict[str, Any]) -> None:
        document.pop("disturbance", None)


class KeepsItsProgressBack(ShortensItsBlocks):
    """Its blocks are a quarter as long as they were, and it sends no progress until the last one has ended."""

    cell = "longer"
    python_only = True
    times = 4

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        loop = sys.modules["assay_worker.trainer"].Loop
        honest = loop.__init__

        def silent(of: Any, adapter: Any, supply: Any, progress: Any, tokens: int = 0) -> None:
            def tell(done: int, planned: int) -> None:
                if done >= planned:
                    progress(done, planned)

            honest(of, adapter, supply, tell, tokens)

        loop.__init__ = silent


class HandsOverAnotherState(Mutant):
    """It hands over the parameters that it started from, with the digest of those that it has."""

    python_only = True  # a worker in C++ hands over its state after the last call

    def memory(self) -> dict[str, int]:
        handed = self.folder / "results/state.safetensors"
        if handed.exists():
            state = dict(read_tensors(handed))
            write_tensors(handed, state | read_tensors(self.folder / "parameters.safetensors"))
        return super().memory()


class ChangesWhatItGives(Mutant):
    """It changes the states that it gives in its exam, which begins with those of the continuation."""

    python_only = True

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        exam = sys.modules["assay_worker.exam"]
        perform = exam.Candidate.perform
        given = itertools.count(1)

        def performed(candidate: Any, action: Any, exam: Any) -> None:
            self.begin_exam()
            if action.kind == exam.Act.STATE:
                exam.give(self.given_state(next(given), self.state()))
            else:
                perform(candidate, action, exam)

        exam.Candidate.perform = performed

    def begin_exam(self) -> None:
        """Called before each action."""

    def given_state(self, number: int, state: Tensors) -> Tensors:
        """Return what is given as the state that is asked for as number `number`, from 1."""
        return state


class ClaimsWhatRoundingsBecome(ChangesWhatItGives):
    """It loses every second step without a pause, and says that roundings take it anywhere."""

    def given_state(self, number: int, state: Tensors) -> Tensors:
        # "start", "unwaited", "waited", "near_1", "near_2".
        return {name: 1000 + tensor for name, tensor in state.items()} if number in (4, 5) else state

    def changed_step(self, step: Step) -> Step | None:
        return step if self.waiting <= 2 or self.waiting % 2 else None


class ContinuesWithoutAStep(ChangesWhatItGives):
    """Its continuation has the right loss, and hands over the state before it as that after each run."""

    before: Tensors | None = None

    def begin_exam(self) -> None:
        if self.before is None:
            self.before = copied(self.state())

    def given_state(self, number: int, state: Tensors) -> Tensors:
        # "start", "unwaited", "waited"; the last two are equal, and so there are no more.
        return self.before if self.before and number <= 3 else state


class ClaimsOthers(ShortensItsBlocks):
    """It shortens its blocks, and reports that other processes used its processor all the time."""

    def claim(self, document: dict[str, Any]) -> None:
        blocks = document["blocks"]
        window = blocks[-1]["end_ns"] - blocks[0]["begin_ns"]
        document["disturbance"] = {
            "processors": 1, "window_ns": window, "own_ns": 0, "others_ns": window, "steal_ns": 0
        }  # fmt: skip


class AsksForLessPrecision(Mutant):
    """It computes in bf16, and rewrites its request to the precision bf16 (c_precision_json)."""

    changed_batch = in_bf16

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        path = cell.folder / "request.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"precision": "bf16"}))


class MakesItsExamEasy(Mutant):
    """It rewrites the exam to zeros, whose answers it knows without a network (c_exam_rewritten)."""

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        inputs, state = (cell.folder / "check" / name for name in ("inputs.npy", "state.safetensors"))
        np.save(inputs, np.zeros_like(np.load(inputs)))
        write_tensors(state, {name: np.zeros_like(t) for name, t in read_tensors(state).items()})
        self.names = read_tensors(state)

    def changed_step(self, step: Step) -> None:
        return None

    def loss(self) -> float:
        return math.log(self.network.classes)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        return np.zeros((len(inputs), self.network.classes), np.float32)

    def state(self) -> Tensors:
        return self.names


class ChangesItsQuestions(Mutant):
    """It writes to a file of the exam."""

    codes = ("exam_changed",)

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        with (cell.folder / "check/batches.json").open("a") as file:
            file.write(" ")  # it stays valid


class LetsAnotherProgramAnswer(Mutant):
    """An honest adapter answers the exam; the timed one does nothing (c_verify_other_program)."""

    python_only = True

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        exam = sys.modules["assay_worker.exam"]
        honest, sit = type(self).__bases__[1], exam.sit

        def sit_for(adapter: Any, program: Any, last_step: int | None, *rest: Any) -> None:
            other = honest(program, cell)
            other.set_state(read_tensors(cell.folder / "parameters.safetensors"))
            sit(other, program, None, *rest)

        exam.sit = sit_for

    def changed_step(self, step: Step) -> Step | None:
        return step if self.steps == 1 else None


class RemembersTheLogitsOfASlot(Mutant):
    """An inference returns the logits that its slot had the first time (c_infer_cached)."""

    cell = "infer"

    def step(self, slot: int, rate: float, number: int) -> None:
        self.logits: dict[int, Tensors] = getattr(self, "logits", {})
        self.last = slot
        if slot not in self.logits:
            super().step(slot, rate, number)
            self.logits[slot] = copied(super().results())

    def results(self) -> Tensors:
        return self.logits[self.last]


class SleepsUntilTheExam(Mutant):
    """An inference returns zeros until a state is set for the third time: that of the exam."""

    cell = "infer"
    states = 0

    def set_state(self, tensors: Tensors) -> None:
        self.states += 1
        super().set_state(tensors)

    def changed_step(self, step: Step) -> Step | None:
        return step if self.states > 2 or self.steps == 1 else None

    def results(self) -> Tensors:
        found: Tensors = super().results()
        return found if self.states > 2 else {name: 0 * tensor for name, tensor in found.items()}


class InfersWhenItIsAsked(Mutant):
    """The timed step of an inference does nothing; results() computes."""

    cell = "infer"
    codes = ("clock_refused", "faster_than_machine")
    asked: Step | None = None

    def changed_step(self, step: Step) -> None:
        self.asked = step

    def synchronize(self) -> None:
        with contextlib.suppress(AttributeError):  # JAX has nothing to wait for
            super().synchronize()

    def results(self) -> Tensors:
        if self.asked:
            super(Mutant, self).step(*self.asked)
        self.asked = None
        found: Tensors = super().results()
        return found


class InfersHalfUntilTheRunEnds(TwoBatches):
    """A timed inference computes half of the batch; the last one is computed as a whole when the run has ended."""

    cell = "infer"
    altered = first_half_twice
    asked: Step | None = None

    def other_batch(self) -> bool:
        return self.reports == 1

    def changed_step(self, step: Step) -> Step:
        self.asked = step._replace(slot=2 * step.slot)
        return super().changed_step(step)

    def memory(self) -> dict[str, int]:
        found = super().memory()
        if self.asked and self.reports == 2:
            super(Mutant, self).step(*self.asked)
        return found


class Decodes(Mutant):
    """A mutant of task decode: computed() tells whether a prompt (token 0) or a token of a slot is."""

    cell = "decode"
    python_only = True
    token = 0  # of the generation

    def computed(self, slot: int, token: int) -> bool:
        raise NotImplementedError

    def prefill(self, slot: int) -> None:
        self.token = 0
        if self.computed(slot, 0):
            super().prefill(slot)  # type: ignore[misc]

    def next_token(self, slot: int) -> None:
        self.token += 1
        if self.computed(slot, self.token):
            super().next_token(slot)  # type: ignore[misc]

    def generate(self, slot: int, tokens: int) -> None:
        """Compute a prompt and the tokens after it."""
        super().prefill(slot)  # type: ignore[misc]
        for _ in range(tokens):
            super().next_token(slot)  # type: ignore[misc]


class DecodesWhenItIsAsked(Decodes):
    """A prompt and its tokens are not computed before results() is called."""

    codes = CLOCK_REFUSED
    slot: int | None = None

    def computed(self, slot: int, token: int) -> bool:
        self.slot = slot
        return False

    def synchronize(self) -> None:
        with contextlib.suppress(AttributeError):  # JAX has nothing to wait for
            super().synchronize()

    def results(self) -> Tensors:
        if self.slot is not None:
            self.generate(self.slot, self.token)
        self.slot = None
        found: Tensors = super().results()
        return found


class DecodesUntilTheRunEnds(Decodes):
    """The timed tokens are not computed; the last generation is when the run has ended."""

    asked: tuple[int, int] | None = None

    def computed(self, slot: int, token: int) -> bool:
        if self.reports == 1:
            self.asked = slot, token
        return self.reports != 1

    def memory(self) -> dict[str, int]:
        found = super().memory()
        if self.asked and self.reports == 2:
            self.generate(*self.asked)
        return found


class DecodesHalfOfTheTokens(Decodes):
    """Every second token is not computed until a state is set for the third time: that of the exam."""

    codes = ("differs_from_oracle", *CLOCK_REFUSED)
    states = 0

    def set_state(self, tensors: Tensors) -> None:
        self.states += 1
        super().set_state(tensors)

    def computed(self, slot: int, token: int) -> bool:
        return self.states > 2 or token % 2 == 0


class WritesNoCacheUntilTheRunEnds(DecodesUntilTheRunEnds):
    """Timed tokens are computed, and their keys and values are not kept."""

    only_in = ("torch",)  # the others update a cache in other ways

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        kind = sys.modules["torch"].Tensor
        honest = kind.index_copy_
        kind.index_copy_ = lambda cache, *given: cache if self.reports == 1 else honest(cache, *given)

    def computed(self, slot: int, token: int) -> bool:
        super().computed(slot, token)
        return True


class RemembersTheTokensOfASlot(Decodes):
    """The logits of a slot's generation are those that it had the first time."""

    def computed(self, slot: int, token: int) -> bool:
        self.logits: dict[tuple[int, int], Tensors] = getattr(self, "logits", {})
        self.last = slot, token
        return self.last not in self.logits

    def results(self) -> Tensors:
        if self.last not in self.logits:
            self.logits[self.last] = copied(super().results())
        return self.logits[self.last]

    def memory(self) -> dict[str, int]:
        if self.reports == 0:
            self.logits.clear()  # of the step after compiling
        return super().memory()

    def next_token(self, slot: int) -> None:
        super().next_token(slot)
        self.results()

    def prefill(self, slot: int) -> None:
        super().prefill(slot)
        self.results()


class HalvesTheBatchesOfLaterForks(OfLaterForks, TwoBatches):
    """From the second fork on it computes half of the batch, but not after the run has ended."""

    cell = "forks"
    altered = first_half_twice

    def other_batch(self) -> bool:
        return self.later


class HalvesTheBatchesOfARestart(HalvesTheBatchesOfLaterForks):
    """The same, in a resident process."""

    cell = "resident"


class InfersHalfInLaterForks(HalvesTheBatchesOfLaterForks):
    """From the second fork on an inference computes half of the batch, but not after the run has ended."""

    cell = "forks-infer"


class InfersHalfAfterARestart(HalvesTheBatchesOfLaterForks):
    """The same, in a resident process."""

    cell = "resident-infer"


class InfersHalfUntilItIsRead(TwoBatches):
    """The timed step of an inference has half of the rows; each call of results() computes all of them."""

    cell = "read"
    codes = (*CLOCK_REFUSED, "differs_from_oracle")
    survives_in: ClassVar = {"onednn": "on a busy machine the reading is short next to the step"}
    altered = first_half_twice

    def changed_step(self, step: Step) -> Step:
        self.asked = step._replace(slot=2 * step.slot)
        return step._replace(slot=2 * step.slot + 1)

    def results(self) -> Tensors:
        super(Mutant, self).step(*self.asked)
        self.synchronize()
        found: Tensors = super().results()
        return found


class RoundsGradientsWhileTimed(Rewritten):
    """Gradients are rounded to bf16 until a state with moments is set."""

    survives = "the losses differ by no more than roundings explain"
    serious = False

    def set_state(self, tensors: Tensors) -> None:
        self.serious = self.serious or has_moments(tensors)
        super().set_state(tensors)

    def rewritten(self) -> Tensors:
        found: Tensors = {}
        for name in () if self.serious else self.shapes:
            found |= self.adam(name, np.float64(rounded(self.gradient(name), 7)))
        return found


class TrainsAgainAfterTheClock(TwoBatches):
    """It times half of each batch; after the clock it trains on all, and writes these losses into its blocks."""

    python_only = True
    alone = True
    survives = "a worker may work for a second after its last block"
    altered = first_half_twice

    def set_state(self, tensors: Tensors) -> None:
        if self.reports <= 1:
            self.started, self.made = copied(tensors), list[Step]()
        super().set_state(tensors)

    def other_batch(self) -> bool:
        return self.reports == 1

    def changed_step(self, step: Step) -> Step:
        if self.reports == 1:
            self.made.append(step._replace(slot=2 * step.slot))
        return super().changed_step(step)

    def memory(self) -> dict[str, int]:
        clock: Path = self.folder / "results/clock.json"
        if self.reports == 1 and clock.exists():
            document = json.loads(clock.read_text())
            left = copied(super().state())
            super(Mutant, self).set_state(self.started)  # type: ignore[misc]
            steps = iter(self.made)
            for block in document["blocks"]:
                for _ in range(block["steps"]):
                    super(Mutant, self).step(*next(steps))  # type: ignore[misc]
                block["loss"] = float(super().loss())
            super(Mutant, self).set_state(left)  # type: ignore[misc]
            clock.write_text(json.dumps(document))
        return super().memory()


class LoadsOneBatch(Mutant):
    """The own loader gives one batch again and again, but not of the exam's samples."""

    cell = "native"
    survives = "the loader chooses its order, and the exam has other samples than the run"
    python_only = True

    def loader(self, samples: Any) -> Any:
        batches = super().loader(samples)  # type: ignore[misc]
        if type(samples).__name__ != "Samples":
            return batches
        return itertools.repeat(next(iter(batches)), len(samples) // self.network.batch)


class LooksUpLabels(Mutant):
    """Evaluation finds its samples in the files of the data set, and returns their labels (c_accuracy)."""

    cell = "epochs"

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        self.labels: dict[bytes, int] = {}
        path = cell.folder / "data/manifest.json"
        manifest = json.loads(path.read_text()) if path.exists() else {"splits": {}}
        for split in manifest["splits"].values():
            raw, labels = (np.load(cell.folder / split[name], mmap_mode="r") for name in ("inputs", "labels"))
            shape = (-1, *[1] * (raw.ndim - 2))
            known = manifest.get("normalisation", {"scale": [1], "shift": [0]})
            scale, shift = (np.array(known[name], np.float32).reshape(shape) for name in ("scale", "shift"))
            for row in range(split["first"], split["first"] + split["count"]):
                self.labels[(np.float32(raw[row]) * scale + shift).tobytes()] = int(labels[row])

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        logits: np.ndarray = np.array(super().evaluate(inputs))
        for row, sample in enumerate(inputs):
            if (label := self.labels.get(sample.tobytes())) is not None:
                logits[row] = 10.0 * (np.arange(self.network.classes) == label)
        return logits


class LeavesItsProcessors(Mutant):
    """Its threads may run on all processors, and it reports one thread (c_threads)."""

    cell = "long"
    codes = ("processors_left",)
    alone = True

    def __init__(self, program: Program, cell: Any) -> None:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        super().__init__(program, cell)


class WidensBoundsInTheCache(Mutant):
    """It computes in bf16, and widens the bounds of all answers that the cache has (c_oracle_cache)."""

    alone = True
    changed_batch = in_bf16

    def __init__(self, program: Program, cell: Any) -> None:
        super().__init__(program, cell)
        for answers in Path(os.environ["ASSAY_CACHE"]).glob("oracle/*/oracle.safetensors"):
            with contextlib.suppress(OSError):
                found = {
                    name: 1e9 * tensor if name.startswith("bound/") else tensor
                    for name, tensor in read_tensors(answers).items()
                }
                write_tensors(answers, found)
                digest = hashlib.sha256(answers.read_bytes()).hexdigest()
                answers.with_name("sha256").write_text(f"{digest}\n")


class SkipsWhileTimed(Mutant):
    """Steps do nothing until a state with moments is set, which only the exam does."""

    serious = False

    def set_state(self, tensors: Tensors) -> None:
        self.serious = self.serious or has_moments(tensors)
        super().set_state(tensors)

    def changed_step(self, step: Step) -> Step | None:
        return step if self.serious or self.steps == 1 else None


class TellsTheStateItWasGiven(Mutant):
    """state() returns the arguments of set_state(): nothing was ever updated."""

    def set_state(self, tensors: Tensors) -> None:
        self.told = copied(tensors)
        super().set_state(tensors)

    def state(self) -> Tensors:
        return {name: self.told.get(name, tensor) for name, tensor in super().state().items()}


class LeavesTheOpToItsResults(Mutant):
    """The timed step of a single op does nothing; results() computes."""

    cell = "roofline"
    codes = ("faster_than_machine",)
    survives_in: ClassVar = {"onednn": "the peak of the machine is measured with the same worker"}

    def changed_step(self, step: Step) -> None:
        self.asked = step

    def results(self) -> Tensors:
        super(Mutant, self).step(*self.asked)
        found: Tensors = super().results()
        return found


class LeavesHalfOfTheOpToItsResults(TwoBatches):
    """The timed step of a single op has half of its first operand; results() computes all of it."""

    cell = "op"
    survives = "results() computes what the step left out"
    altered = without_half_of_the_op

    def changed_step(self, step: Step) -> Step:
        self.asked = step._replace(slot=2 * step.slot)
        return step._replace(slot=2 * step.slot + 1)

    def results(self) -> Tensors:
        super(Mutant, self).step(*self.asked)
        found: Tensors = super().results()
        return found


def with_half_of_distinct_rows(mutant: Mutant, batch: Batch) -> Batch:
    rows = batch.inputs.reshape(len(batch.inputs), -1)
    distinct = len(np.unique(np.round(rows.sum(axis=1), 2)))
    return first_half_twice(mutant, batch) if 2 * distinct > len(rows) else batch


CHEATS: dict[str, type[Mutant]] = {
    "DoesNothingLater": of("Steps do nothing from the fourth on, and repeat the loss (c_noop).", changed_step=lambda m, s: s if m.since <= 3 else None),
    "DoesOneStepInTen": of("From the fourth step on, only one in ten is done, so that the loss moves (c_noop_real).", changed_step=lambda m, s: s if m.since <= 3 or m.since % 10 == 0 else None),
    "SkipsLongRuns": of("After two steps without a pause every second step does nothing.", changed_step=lambda m, s: s if m.waiting <= 2 or m.waiting % 2 else None),
    "SkipsAtTheRateOfTheRun": of("Every second of the steps without a pause does nothing, at the first learning rate of the run.", changed_step=lambda m, s: s if m.waiting == 1 or s.rate != m.first_rate or m.waiting % 2 else None),
    "SavesWorkByTheRate": of("Steps with a learning rate that the exam does not use are skipped every other time.", changed_step=lambda m, s: s if s.number >= 20 or m.steps % 2 else None),
    "SkipsInLaterForks": of("From the second fork on every second step does nothing.", OfLaterForks, changed_step=lambda m, s: s if m.steps % 2 or not m.later else None, cell="forks"),
    "SkipsAfterARestart": of("The same, in a resident process.", OfLaterForks, changed_step=lambda m, s: s if m.steps % 2 or not m.later else None, cell="resident"),
    "InfersNothing": of("The timed step of an inference does nothing after the first.", changed_step=lambda m, s: s if m.steps == 1 else None, cell="infer"),
    "InfersEachBatchOnce": of("An inference on a batch that did not change does nothing (c_infer_cached, with care).", changed_step=lambda m, s: s if s.slot in m.fresh else None, cell="infer"),
    "HalvesLaterBatches": of("From the fourth step on it computes half of the batch (c_half_late).", TwoBatches, altered=first_half_twice),
    "RoundsLaterBatches": of("From the fourth step on the operands of the first layer are in bf16 (c_bf16_late).", TwoBatches, altered=in_bf16),
    "HalvesTheBatchesOfARun": of("Half of a batch, unless rows repeat, which happens only in an exam (c_duplicates).", changed_batch=with_half_of_distinct_rows),
    "ClaimsOneByte": of("It reports that it uses one byte of memory (c_memory).", memory=lambda _: {"persistent": 1}, survives="what a worker reports about its memory is not judged; its processes are measured from outside"),
    **{
        kind.__name__: kind
        for kind in list(globals().values())
        if isinstance(kind, type) and issubclass(kind, Mutant) and kind.__module__ == __name__ and kind not in (Decodes, ChangesWhatItGives)
    },
}  # fmt: skip
for _kind in CHEATS.values():
    _kind.cheats = True
