"""The results of the command verify: docs/reference/protocol.md, "The exam"."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from .adapter import Adapter, NetworkAdapter, TrainingAdapter
from .cell import Cell
from .exam_dropout import DropoutExam, NetworkDropout, OpDropout
from .exam_loader import fit_losses, loader_losses, loader_samples
from .exam_staging import Staged
from .op_adapter import OpAdapter
from .program import Program
from .tensors import Tensors, copied, nudged, read_tensors, same_tensors, write_tensors

# More runs with pauses, if two runs differ: how far the program's roundings take it.
SPREAD_RUNS = 2


@dataclass(frozen=True)
class Feeds:
    """The files that the conductor put into check/ of the cell folder."""

    state: Tensors
    samples: np.ndarray  # f32 or i32: those of batch 0, then those of batch 1, ...
    labels: np.ndarray  # i32, of each sample
    schedule: list[list[float]]  # (1 + k, 2): learning rate, step count
    masks: Tensors  # u8 by the mask's name, a row for each distinct sample of a batch; none without dropout
    extreme: Tensors  # tensors that replace those of the state in the step with an extreme logit
    distinct: int  # samples in each batch
    row_of: np.ndarray  # the sample of each row, counted within its batch
    slots: list[int]  # of each batch
    continuation: dict[str, float] | None  # seconds, fewest, most; None: not requested
    run: list[int] | None  # slots of the run to compute again; None: not requested
    excerpt: dict[str, float] | None = None  # elements, at; None: states are handed over whole

    @property
    def batches(self) -> range:
        return range(len(self.slots))

    def batch(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows of a batch. Repeated rows of a sample differ from the first by a few roundings."""
        rows = number * self.distinct + self.row_of
        inputs, labels = self.samples[rows], self.labels[rows]
        if inputs.dtype == np.float32 and len(rows) > self.distinct:
            _, first = np.unique(self.row_of, return_index=True)
            again = np.setdiff1d(np.arange(len(rows)), first)
            exact = inputs[again]
            near = nudged(exact, 0.25, np.random.default_rng(number))
            # A token among packed inputs is a whole number, and stays.
            inputs[again] = np.where(exact == np.trunc(exact), exact, near)
        return inputs, labels

    def handed(self, tensor: np.ndarray) -> np.ndarray:
        """Return the elements of a tensor of the state that the conductor reads."""
        if self.excerpt is None:
            return tensor
        count = min(tensor.size, int(self.excerpt["elements"]))
        last = tensor.size - count
        first = min(last, int(self.excerpt["at"] * (last + 1)))
        return tensor.reshape(-1)[first : first + count]

    def batch_masks(self) -> Tensors:
        return {name: mask[self.row_of] for name, mask in self.masks.items()}


def read_feeds(cell_folder: Path) -> Feeds:
    folder = cell_folder / "check"

    def tensors(name: str) -> Tensors:
        path = folder / f"{name}.safetensors"
        return read_tensors(path) if path.exists() else {}

    def document(name: str) -> Any:
        path = folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    batches, run = document("batches"), document("run")
    return Feeds(
        read_tensors(folder / "state.safetensors"),
        np.load(folder / "inputs.npy"),
        np.load(folder / "labels.npy"),
        np.load(folder / "schedule.npy").tolist(),
        tensors("masks"),
        tensors("extreme"),
        int(batches["distinct"]),
        np.array(batches["row_of"]),
        [int(slot) for slot in batches["slots"]],
        document("continuation"),
        run and run["slots"],
        document("excerpt"),
    )


def sit(
    adapter: Adapter,
    program: Program,
    task: str,
    last_step: int | None,
    cell_folder: Path,
    agree: Callable[[int], int] | None = None,
    read: Tensors | None = None,
) -> None:
    """Write results/verify.safetensors. Afterwards state and slots are the exam's, and masks are drawn.

    last_step: number of the last step that ran, which left the state and batches in the slots; None if
    nothing ran. agree: Adapter.agree of several ranks, which must take the same number of steps. read: the
    results of the run that were asked for last.
    """
    feeds = read_feeds(cell_folder)
    agree = agree or int  # one rank agrees with itself
    answers: Tensors = {}
    trained = cast(TrainingAdapter, adapter)  # if the exam has questions about a training
    if feeds.run is not None:
        answers |= _run(adapter, program, task, feeds.run, read or {})
    if feeds.continuation is not None:
        # If each step is given its batch, a framework's own loop may have left none in the slots.
        if last_step is None or set(feeds.slots) == {0}:
            Staged(adapter, feeds.slots, feeds.batch).stage_all()
        answers |= _continuation(trained, feeds, feeds.continuation, (last_step or 0) + 1, agree)
    if last_step is not None and task == "train" and not program.is_op and _has_own_loader(cell_folder):
        answers |= loader_samples(trained, program, cell_folder)
        answers |= loader_losses(trained, program, cell_folder)
        if trained.own_loop:
            answers |= fit_losses(trained, program, cell_folder)
    staged = Staged(adapter, feeds.slots, feeds.batch)
    dropout = _dropout_exam(adapter, program, task, staged, feeds)
    if dropout:
        dropout.take_timed_steps()
    # Without a dropout nothing tells the exam from a run. An inference has none.
    masks = feeds.batch_masks() if program.is_op or task == "train" else {}
    if masks:
        adapter.supply_masks(masks)
    adapter.set_state(feeds.state)
    staged.stage_all()
    if program.is_op or task == "infer":
        answers |= _results(adapter, staged, feeds, program.is_op)
    elif task == "decode":
        answers |= _decoding(cast(NetworkAdapter, adapter), staged, feeds, program.generated)
    else:
        answers |= _training(trained, staged, feeds, program)
    if dropout:
        answers |= dropout.answers()
    if masks:
        adapter.supply_masks({})  # a process that stays is timed again
    _write(cell_folder / "results/verify.safetensors", answers)


def _has_own_loader(cell_folder: Path) -> bool:
    return Cell(cell_folder, json.loads((cell_folder / "request.json").read_text())).loader == "native"


def _dropout_exam(
    adapter: Adapter, program: Program, task: str, staged: Staged, feeds: Feeds
) -> DropoutExam | None:
    if not feeds.masks:
        return None
    if program.is_op:
        adapter.set_state(feeds.state)
        return OpDropout(cast(OpAdapter, adapter), staged.slot_of)
    if task != "train":
        return None
    row = feeds.schedule[0]
    return NetworkDropout(
        cast(TrainingAdapter, adapter), feeds.state, row, staged.slot_of, len(feeds.slots), feeds.handed
    )


def _results(adapter: Adapter, staged: Staged, feeds: Feeds, is_op: bool) -> Tensors:
    """The results of the timed step on each batch, one after the other."""
    answers = _stacked(_computed(adapter, is_op, staged.slot_of(batch), batch + 1) for batch in feeds.batches)
    if is_op:
        state = cast(OpAdapter, adapter).state()
        answers |= {f"running/{name}": tensor for name, tensor in state.items()}
    return answers


def _stacked(all_results: Iterable[Tensors]) -> Tensors:
    found: dict[str, list[np.ndarray]] = {}
    for results in all_results:
        for name, tensor in results.items():
            found.setdefault(name, []).append(tensor)
    return {name: np.stack(tensors) for name, tensors in found.items()}


def _computed(adapter: Adapter, is_op: bool, slot: int, step: int) -> Tensors:
    adapter.step(slot, 0.0, step)
    adapter.synchronize()
    return _named(adapter.results(), is_op)


def _named(results: Tensors, is_op: bool) -> Tensors:
    """Copy the results of a step; those of a single op are "result/..." or "gradient/..."."""
    return {
        f"result/{name}" if is_op and not name.startswith("gradient/") else name: np.array(tensor)
        for name, tensor in results.items()
    }


def _decoding(adapter: NetworkAdapter, staged: Staged, feeds: Feeds, tokens: int) -> Tensors:
    """The logits of the last token of each prompt and of the tokens after it, on each batch."""
    return _stacked(_generated(adapter, staged.slot_of(batch), tokens) for batch in feeds.batches)


def _generated(adapter: NetworkAdapter, slot: int, tokens: int) -> Tensors:
    def logits() -> np.ndarray:
        adapter.synchronize()
        return np.array(adapter.results()["logits"])

    adapter.prefill(slot)
    positions = [logits()]
    for _ in range(tokens):
        adapter.next_token(slot)
        positions.append(logits())
    return {"logits": np.concatenate(positions, axis=1)}


def _run(adapter: Adapter, program: Program, task: str, slots: list[int], read: Tensors) -> Tensors:
    """The results of the last step, and those of a step on each of these slots, with the run's own weights.

    read: the results that were read in the run.

    Called before anything is set after the run.
    """
    found = {"last": adapter.results(), "read": read}
    answers = {
        f"{which}/{name}": tensor
        for which, results in found.items()
        for name, tensor in _named(results, program.is_op).items()
    }
    if task == "decode":
        decoder = cast(NetworkAdapter, adapter)
        answers |= _stacked(_generated(decoder, slot, program.generated) for slot in slots)
    else:
        answers |= _stacked(_computed(adapter, program.is_op, slot, 1) for slot in slots)
    return {f"run/{name}": tensor for name, tensor in answers.items()}


def _training(adapter: TrainingAdapter, staged: Staged, feeds: Feeds, program: Program) -> Tensors:
    kinds = {value.name: "parameter" for value in program.parameters} | {
        value.name: "running" for value in program.states
    }

    def step(row: int) -> None:
        """Row 0 of the schedule is a step on the first batch; the other rows cycle through all batches."""
        learning_rate, number = feeds.schedule[row]
        batch = 0 if row == 0 else (row - 1) % len(feeds.slots)
        adapter.step(staged.slot_of(batch), learning_rate, int(number))

    def found(run: str) -> Tensors:
        adapter.synchronize()
        loss = {f"{run}/loss": np.array(adapter.loss())}
        state = adapter.state().items()
        return loss | {f"{run}/{kinds.get(name, 'moment')}/{name}": tensor for name, tensor in state}

    inputs, _ = feeds.batch(0)
    answers = {"evaluation/logits": adapter.evaluate(inputs)}
    step(0)
    answers |= found("first")
    adapter.set_state(feeds.state)
    for row in range(1, len(feeds.schedule)):
        step(row)
    answers |= found("last") | {"last/logits": adapter.evaluate(inputs)}
    if feeds.extreme:
        adapter.set_state(feeds.state | feeds.extreme)
        step(0)
        adapter.synchronize()
        answers["extreme/loss"] = np.array(adapter.loss())
    return answers


def _continuation(
    adapter: TrainingAdapter, feeds: Feeds, asked: dict[str, float], first: int, agree: Callable[[int], int]
) -> Tensors:
    """Return the states after several runs of the same steps from the present state.

    `unwaited` continues without a pause. `waited` starts from a copy of that state, `start`, and waits for
    each step. If the two differ, `near_1` and `near_2` do so from states that are a rounding off the copy.
    """

    def enqueue(step: int) -> None:
        learning_rate, _ = feeds.schedule[1]
        adapter.step(feeds.slots[step % len(feeds.slots)], learning_rate, first + step)

    begin = time.monotonic()
    enqueue(0)
    adapter.synchronize()
    took = max(time.monotonic() - begin, 1e-9)
    loss = adapter.loss()
    steps = range(1, 1 + agree(int(min(max(asked["seconds"] / took, asked["fewest"]), asked["most"]))))

    start = copied(adapter.state())
    for step in steps:
        enqueue(step)
    adapter.synchronize()
    unwaited = copied(adapter.state())

    def run_with_pauses(start: Tensors) -> Tensors:
        adapter.set_state(start)
        for step in steps:
            enqueue(step)
            adapter.synchronize()
        return copied(adapter.state())

    runs = {"start": start, "unwaited": unwaited, "waited": run_with_pauses(start)}
    if agree(int(not same_tensors(unwaited, runs["waited"]))):
        for run in range(SPREAD_RUNS):
            random = np.random.default_rng(run)
            near = {name: nudged(tensor, 0.5, random) for name, tensor in start.items()}
            runs[f"near_{run + 1}"] = run_with_pauses(near)
    answers = {"continuation/steps": np.array(len(steps)), "continuation/loss": np.array(loss)}
    for run_name, state in runs.items():
        for name, tensor in state.items():
            answers[f"continuation/{run_name}/{name}"] = feeds.handed(tensor)
    return answers


def _write(path: Path, tensors: Tensors) -> None:
    write_tensors(
        path,
        {
            name: tensor if name.startswith("draws/") else np.asarray(tensor, np.float32)
            for name, tensor in tensors.items()
        },
    )
