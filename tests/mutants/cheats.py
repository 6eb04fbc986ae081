"""Adapters that deceive the check on purpose.

A name such as c_noop, in parentheses, is that of a cheat that the check of an earlier version missed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from mutant import (
    Mutant,
    SinceTheState,
    SwitchesLater,
    Tensors,
    TwoBatches,
    Undrained,
    first_half_twice,
    mean_loss,
    rounded,
    second_half_of_the_op,
)

CLOCK_REFUSED = ("clock_refused",)


class DoesNothingLater(SinceTheState):
    """Steps do nothing from the fourth on, and repeat the loss (c_noop)."""

    cheats = True

    def is_done(self) -> bool:
        return self.since <= 3

    def step(self, slot: int, rate: float, step: int) -> None:
        self.since += 1
        if self.is_done():
            super().step(slot, rate, step)


class DoesOneStepInTen(DoesNothingLater):
    """From the fourth step on, only one in ten is done, so that the loss moves (c_noop_real)."""

    def is_done(self) -> bool:
        return self.since <= 3 or self.since % 10 == 0


class ComputesOnlyForwardLater(SinceTheState):
    """From the fourth step on it computes the loss and no gradient (c_forward_only)."""

    cheats = True
    own_loss: float | None = None

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.batches: dict[int, tuple[np.ndarray, np.ndarray]] = getattr(self, "batches", {})
        self.batches[slot] = inputs.copy(), labels.copy()
        super().stage(slot, inputs, labels)

    def step(self, slot: int, rate: float, step: int) -> None:
        self.since += 1
        if self.since <= 3:
            super().step(slot, rate, step)
            self.own_loss = None
            return
        inputs, labels = self.batches[slot]
        self.own_loss = mean_loss(super().evaluate(inputs), labels)

    def loss(self) -> float:
        return float(super().loss()) if self.own_loss is None else self.own_loss


class HalvesLaterBatches(SwitchesLater):
    """From the fourth step on it computes half of the batch (c_half_late)."""

    cheats = True

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return first_half_twice(inputs, labels)


class RoundsLaterBatches(SwitchesLater):
    """From the fourth step on the operands of the first layer are in bf16 (c_bf16_late)."""

    cheats = True

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rounded(inputs, 7), labels


class ComputesOneSampleUntilItIsExamined(TwoBatches):
    """Every row is the first, until the exam's call that supplies masks of dropout (c_check_flag)."""

    cheats = True
    examined = False

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs[1:], labels[1:] = inputs[:1], labels[:1]
        return inputs, labels

    def other_batch(self) -> bool:
        return not self.examined

    def supply_masks(self, masks: Tensors) -> None:
        self.examined = True
        super().supply_masks(masks)


class HalvesTheBatchesOfARun(Mutant):
    """Half of a batch, unless rows repeat, which happens only in an exam (c_duplicates)."""

    cheats = True
    survives = "it recognizes the exam by its batches"

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        distinct = len(np.unique(np.round(inputs.reshape(len(inputs), -1).sum(axis=1), 2)))
        if 2 * distinct > len(inputs):
            inputs, labels = first_half_twice(inputs.copy(), labels.copy())
        super().stage(slot, inputs, labels)


class HalvesTheBatchesOfAStart(TwoBatches):
    """Half of a batch after a state without moments was set, but not after the run has ended."""

    cheats = True
    survives = "it recognizes the exam by its state, and does the same in a replay"
    halves = False
    reports = 0  # of its memory: after compiling and after the run

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return first_half_twice(inputs, labels)

    def other_batch(self) -> bool:
        return self.halves

    def set_state(self, tensors: Tensors) -> None:
        self.halves = not any(name.endswith(".v") for name in tensors)
        super().set_state(tensors)

    def memory(self) -> dict[str, int]:
        self.reports += 1
        self.halves = self.halves and self.reports < 2
        found: dict[str, int] = super().memory()
        return found


class StepsAfterTheClock(Mutant):
    """Steps are queued, and done when it reports its memory, after the clock has stopped (c_deferred)."""

    cheats = True
    codes = ("differs_from_oracle", *CLOCK_REFUSED)
    reports = 0

    def set_state(self, tensors: Tensors) -> None:
        self.queue: list[tuple[int, float, int]] = []
        super().set_state(tensors)

    def step(self, slot: int, rate: float, step: int) -> None:
        if self.reports == 1:
            self.queue.append((slot, rate, step))
        else:
            super().step(slot, rate, step)

    def memory(self) -> dict[str, int]:
        self.reports += 1
        for arguments in self.queue:
            super().step(*arguments)
        self.queue.clear()
        found: dict[str, int] = super().memory()
        return found


class EndsItsBlocksFirst(Mutant):
    """A block ends before its steps, which run before the next block begins (c_outside_block)."""

    cheats = True
    codes = ("differs_from_oracle", *CLOCK_REFUSED)
    python_only = True
    own_loop = True

    def train(self, loop: Any, samples: Any) -> None:
        resident = loop.session.layout.resident_batches
        loss = super().loss()
        while (block := loop.next_block()) is not None:
            rows = loop.rows(block)
            loop.session.enqueued()
            loop.session.end_block(loss)
            for row, (rate, step) in enumerate(rows, block.first_step):
                super().step(row % resident, rate, step)
            super().synchronize()
            loss = super().loss()


class StepsBeforeTheClock(Mutant):
    """All steps run before the first block begins, and the blocks report their losses."""

    cheats = True
    survives = "the time before the first block is not judged"
    python_only = True
    own_loop = True

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        clock = cell.request["clock"]
        self.planned = clock["warm_up"]["min_steps"] + clock["steps"]

    def train(self, loop: Any, samples: Any) -> None:
        resident = loop.session.layout.resident_batches
        losses = []
        for row, (rate, step) in enumerate(loop.session.schedule[: self.planned]):
            super().step(row % resident, rate, step)
            super().synchronize()
            losses.append(super().loss())
        while (block := loop.next_block()) is not None:
            loop.rows(block)
            loop.session.enqueued()
            loop.session.end_block(losses[block.first_step + block.steps - 1])


class ShortensItsBlocks(Mutant):
    """It rewrites the clock's file: blocks are a tenth as long, and undisturbed (c_clock_json)."""

    cell = "long"
    cheats = True
    codes = CLOCK_REFUSED
    alone = True  # a process that was forked elsewhere is another process for the conductor

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.clock: Path = cell.folder / "results/clock.json"

    def memory(self) -> dict[str, int]:
        if self.clock.exists():
            document = json.loads(self.clock.read_text())
            for block in document["blocks"]:
                block["end_ns"] = block["begin_ns"] + (block["end_ns"] - block["begin_ns"]) // 10
                for part in ("enqueue_ns", "wait_ns", "cpu_ns"):
                    block[part] = block.get(part, 0) // 10
            self.claim(document)
            self.clock.write_text(json.dumps(document))
        found: dict[str, int] = super().memory()
        return found

    def claim(self, document: dict[str, Any]) -> None:
        document.pop("disturbance", None)


class ClaimsOthers(ShortensItsBlocks):
    """It shortens its blocks, and reports that other processes used its processor all the time."""

    python_only = True

    def claim(self, document: dict[str, Any]) -> None:
        blocks = document["blocks"]
        window = blocks[-1]["end_ns"] - blocks[0]["begin_ns"]
        document["disturbance"] = {
            "processors": 1, "window_ns": window, "own_ns": 0, "others_ns": window, "steal_ns": 0
        }  # fmt: skip


class AsksForLessPrecision(Mutant):
    """It computes in bf16, and rewrites its request to the precision bf16 (c_precision_json)."""

    cheats = True

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        path = cell.folder / "request.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"precision": "bf16"}))

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, rounded(inputs, 7), labels)


class MakesItsExamEasy(Mutant):
    """It rewrites the exam to zeros, whose answers it knows without a network (c_exam_rewritten)."""

    cheats = True
    python_only = True

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        from assay_worker.tensors import read_tensors, write_tensors

        inputs, state = (cell.folder / "check" / name for name in ("inputs.npy", "state.safetensors"))
        np.save(inputs, np.zeros_like(np.load(inputs)))
        write_tensors(state, {name: np.zeros_like(t) for name, t in read_tensors(state).items()})
        self.classes = program.classes
        self.names = read_tensors(state)

    def step(self, slot: int, rate: float, step: int) -> None:
        pass

    def loss(self) -> float:
        return math.log(self.classes)

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        return np.zeros((len(inputs), self.classes), np.float32)

    def state(self) -> Tensors:
        return self.names


class ChangesItsQuestions(Mutant):
    """It writes to a file of the exam."""

    cheats = True
    codes = ("exam_changed",)

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        with (cell.folder / "check/batches.json").open("a") as file:
            file.write(" ")  # it stays valid


class LetsAnotherProgramAnswer(Mutant):
    """An honest adapter answers the exam; the timed one does nothing (c_verify_other_program)."""

    cheats = True
    python_only = True
    begun = False

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        exam = sys.modules["assay_worker.exam"]
        from assay_worker.tensors import read_tensors

        honest, sit = type(self).__bases__[1], exam.sit

        def sit_for(adapter: Any, program: Any, task: str, last_step: int | None, *rest: Any) -> None:
            other = honest(program, cell)
            other.set_state(read_tensors(cell.folder / "parameters.safetensors"))
            sit(other, program, task, None, *rest)

        exam.sit = sit_for

    def step(self, slot: int, rate: float, step: int) -> None:
        if not self.begun:
            super().step(slot, rate, step)
        self.begun = True


class InfersNothing(Mutant):
    """The timed step of an inference does nothing after the first."""

    cell = "infer"
    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        if not getattr(self, "done", False):
            super().step(slot, rate, step)
        self.done = True


class RemembersTheLogitsOfASlot(Mutant):
    """An inference returns the logits that its slot had the first time (c_infer_cached)."""

    cell = "infer"
    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        self.logits: dict[int, Tensors] = getattr(self, "logits", {})
        self.slot = slot
        if slot not in self.logits:
            super().step(slot, rate, step)
            self.logits[slot] = {name: np.array(tensor) for name, tensor in super().results().items()}

    def results(self) -> Tensors:
        return self.logits[self.slot]


class InfersEachBatchOnce(Mutant):
    """An inference on a batch that did not change does nothing (c_infer_cached, with care)."""

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


class LooksUpLabels(Mutant):
    """Evaluation finds its samples in the files of the data set, and returns their labels (c_accuracy)."""

    cell = "epochs"
    cheats = True
    python_only = True
    survives = "only the oracle's own samples are compared"

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.classes = program.classes
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
                logits[row] = 10.0 * (np.arange(self.classes) == label)
        return logits


class ClaimsOneByte(Mutant):
    """It reports that it uses one byte of memory (c_memory)."""

    cheats = True
    survives = "what a worker reports about its memory is not judged; its processes are measured from outside"

    def memory(self) -> dict[str, int]:
        return {"persistent": 1}


class LeavesItsProcessors(Mutant):
    """Its threads may run on all processors, and it reports one thread (c_threads)."""

    cell = "long"
    cheats = True
    codes = ("processors_left",)
    alone = True

    def __init__(self, program: Any, cell: Any) -> None:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        super().__init__(program, cell)


class WidensBoundsInTheCache(Mutant):
    """It computes in bf16, and widens the bounds of all answers that the cache has (c_oracle_cache)."""

    cheats = True
    alone = True
    python_only = True

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        from assay_worker.tensors import read_tensors, write_tensors

        for answers in Path(os.environ["ASSAY_CACHE"]).glob("oracle/*/oracle.safetensors"):
            with contextlib.suppress(OSError):
                found = {
                    name: 1e9 * tensor if name.startswith("bound/") else tensor
                    for name, tensor in read_tensors(answers).items()
                }
                write_tensors(answers, found)
                digest = hashlib.sha256(answers.read_bytes()).hexdigest()
                answers.with_name("sha256").write_text(f"{digest}\n")

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(slot, rounded(inputs, 7), labels)


class SkipsWhileTimed(Mutant):
    """Steps do nothing until a state with moments is set, which only the exam does."""

    cheats = True
    serious = False

    def set_state(self, tensors: Tensors) -> None:
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

    def set_state(self, tensors: Tensors) -> None:
        self.given = {name: np.array(tensor) for name, tensor in tensors.items()}
        super().set_state(tensors)

    def state(self) -> Tensors:
        return {name: self.given.get(name, tensor) for name, tensor in super().state().items()}


class SavesWorkByTheRate(Mutant):
    """Steps with a learning rate that the exam does not use are skipped every other time."""

    cheats = True

    def step(self, slot: int, rate: float, step: int) -> None:
        self.steps_seen += 1
        if step >= 20 or self.steps_seen % 2:
            super().step(slot, rate, step)


class LeavesTheOpToItsResults(Mutant):
    """The timed step of a single op does nothing; results() computes."""

    cell = "roofline"
    cheats = True
    codes = ("faster_than_machine",)
    survives_in: ClassVar = {"onednn": "the peak of the machine is measured with the same worker"}

    def step(self, slot: int, rate: float, step: int) -> None:
        self.asked = slot, rate, step

    def results(self) -> Tensors:
        super().step(*self.asked)
        found: Tensors = super().results()
        return found


class LeavesHalfOfTheOpToItsResults(TwoBatches):
    """The timed step of a single op has half of its first operand; results() computes all of it."""

    cell = "op"
    cheats = True
    survives = "results() computes what the step left out"
    asked_for_results = False

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.half = second_half_of_the_op(program, cell.task)

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs.reshape(-1)[self.half] = 0
        return inputs, labels

    def other_batch(self) -> bool:
        return not self.asked_for_results

    def step(self, slot: int, rate: float, step: int) -> None:
        self.asked = slot, rate, step
        super().step(slot, rate, step)

    def results(self) -> Tensors:
        self.asked_for_results = True
        super().step(*self.asked)
        self.asked_for_results = False
        found: Tensors = super().results()
        return found
