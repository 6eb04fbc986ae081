"""The exam of a framework's own loader: docs/reference/protocol.md, "The exam"."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from .adapter import TrainingAdapter
from .batch import DONE, TIMED, Block
from .errors import Unsupported
from .loop import Loop
from .program import Program
from .samples import Samples, shared
from .tensors import Tensors, read_tensors

PASSES = 2
MIN_BATCHES, MAX_BATCHES, MIN_SAMPLES = 12, 32, 64
MAX_BYTES = 64 << 20  # of all samples, beyond the fewest batches
MIN_STEPS, MAX_STEPS, STEP_SECONDS = 3, 12, 0.25  # on batches of the loader
SHARES = (1.0, 0.3, 0.6, 0.1)  # of the cell's largest learning rate, in turn
FIT_SHARES = (0.1, 0.03)  # in each pass of the framework's own loop

LEVELS = 256  # of pixels
FINE_LEVELS = 1 << 16  # of other numbers: half precision does not have them
ROUNDINGS, ROUNDOFF = 8, {True: 2**-24, False: 2**-9}  # of samples; by whether the cell computes in fp32

# In place of the number of a sample.
STRANGE, LABELLED_AS_ANOTHER, MISSING = -1, -2, -3


class NumberedSamples(Samples):
    """A data set like the cell's whose samples show their numbers.

    Pixels and tokens are drawn, so that a sample and its crops are like no other. Labels are the numbers
    modulo the classes (each position of a sample has the next one). The plan lists the samples in an order of
    its own, so that a place in it is not the number of a sample, and crops and mirrors as far as that of the
    cell. `left_over` samples fill no batch.
    """

    _moves: tuple[int, bool] | None = None  # the largest offset, and whether samples are mirrored
    _max_batches = MAX_BATCHES
    _found_by_content = True  # numbers_of(); it takes as long as reading all samples in each pass

    def __init__(self, cell_folder: Path, batch: int, classes: int, left_over: int) -> None:
        super().__init__(cell_folder)
        manifest = json.loads((cell_folder / "data/manifest.json").read_text())
        one, self._random = self.raw[:1], np.random.default_rng(classes)
        fewest = max(MIN_BATCHES, -(-MIN_SAMPLES // batch))
        fitting = MAX_BYTES // max(1, one.nbytes * batch)
        self.batches = max(fewest, min(self._max_batches, fitting))
        count = self.batches * batch + left_over
        request = json.loads((cell_folder / "request.json").read_text())
        is_single = request["precision"] in ("fp32", "fp64")
        self._roundoff = ROUNDOFF[is_single]
        is_pixel = one.dtype == np.uint8
        levels = FINE_LEVELS if is_single and not is_pixel else LEVELS
        values = manifest["vocabulary"] if self.tokens else levels
        if not (self.tokens or is_pixel):
            self.scale = self.scale / np.float32(levels)  # numbers below one, as such arrays have them
        self.raw = self._random.integers(0, values, (count, *one.shape[1:])).astype(one.dtype)
        numbers = np.arange(count)
        positions = np.arange(np.prod(self.labels.shape[1:], dtype=int)).reshape(self.labels.shape[1:])
        each = numbers.reshape(-1, *[1] * positions.ndim) + positions
        self.labels = (each % classes).astype(self.labels.dtype)
        furthest = np.abs(self.rows[:, 1:3]).max(initial=0)
        self._moves = int(furthest), bool(self.rows[:, 3].any())
        order = np.random.default_rng(count).permutation(count)
        self.rows = shared(np.stack([order, *[np.zeros(count, int)] * 3], 1).astype(self.rows.dtype))
        self._numbers: dict[bytes, list[int]] = {}  # by the content of a sample of the pass
        self.start(1)

    def _plan(self, epoch: int) -> np.ndarray:
        if self._moves is None:  # the cell's own
            return super()._plan(epoch)
        furthest, mirrors = self._moves
        plan = self.rows.copy()
        plan[:, 1:3] = self._random.integers(-furthest, furthest, (len(plan), 2), endpoint=True)
        plan[:2, 1:3] = [[furthest] * 2, [-furthest] * 2]  # a loader may measure them
        plan[:, 3] = self._random.integers(0, 2, len(plan)) * mirrors
        return plan

    def start(self, epoch: int) -> None:
        super().start(epoch)
        self._numbers = {}
        for number in range(len(self) if self._found_by_content else 0):
            self._numbers.setdefault(self._key(self[number][0]), []).append(number)

    def batch(self, rows: Iterable[int]) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = (np.stack(column) for column in zip(*(self[row] for row in rows), strict=True))
        return inputs.astype(self.dtype), labels.astype(np.int32)

    @property
    def dtype(self) -> type[np.generic]:
        return np.int32 if self.tokens else np.float32

    def numbers_of(self, inputs: np.ndarray, labels: np.ndarray) -> list[int]:
        """Return the place in the plan of the sample of each row: each once, if samples are equal."""
        return [self._number(*row) for row in zip(inputs, labels, strict=True)]

    def _number(self, inputs: np.ndarray, label: np.ndarray) -> int:
        alike = self._numbers.get(self._key(inputs), [])
        for number in alike:
            expected, right = self[number]
            if np.array_equal(np.asarray(label, np.float64), np.asarray(right, np.float64)):
                if not self._is_near(np.asarray(inputs, np.float64), expected):
                    return STRANGE
                if len(alike) > 1:
                    alike.remove(number)
                return number
        return LABELLED_AS_ANOTHER if alike else STRANGE

    def _is_near(self, inputs: np.ndarray, expected: np.ndarray) -> bool:
        """Whether these are the same numbers but for some roundings of their normalisation."""
        if inputs.size != expected.size:
            return False
        shift = 0 if self.tokens else np.broadcast_to(self.shift, expected.shape).ravel()
        allowed = ROUNDINGS * self._roundoff * (np.abs(expected.ravel()) + np.abs(shift))
        return bool((np.abs(inputs.ravel() - expected.ravel()) <= allowed).all())

    def _key(self, inputs: np.ndarray) -> bytes:
        """Identify the content of a sample: the same for all roundings of its normalisation."""
        raw = np.asarray(inputs, np.float32)
        if not self.tokens and raw.shape == self.raw.shape[1:]:
            raw = np.rint((raw - self.shift) / self.scale)
        whole = np.clip(np.nan_to_num(raw, nan=-1), -1, 1 << 24).astype(np.int32)
        return hashlib.blake2b(whole.tobytes(), digest_size=16).digest()


class UnnumberedSamples(NumberedSamples):
    """The same data set for a caller that does not ask for the numbers."""

    _found_by_content = False


class AlikeSamples(UnnumberedSamples):
    """A data set of one sample again and again, so that every batch is the same one in any order."""

    _max_batches = MIN_BATCHES

    def __init__(self, cell_folder: Path, batch: int, classes: int) -> None:
        super().__init__(cell_folder, batch, classes, 0)
        self.raw[:], self.labels[:] = self.raw[:1], self.labels[:1]

    def _plan(self, epoch: int) -> np.ndarray:
        if self._moves is None:
            return super()._plan(epoch)
        plan = self.rows.copy()
        furthest, mirrors = self._moves
        plan[:, 1:] = [furthest, -furthest, mirrors]
        return plan


class Steps:
    """A supply of the batch library, for a framework's own loop: blocks of one step, or of a pass."""

    def __init__(self, rates: Sequence[float], steps_of_pass: int = 0) -> None:
        self.schedule = [(rate, number) for number, rate in enumerate(rates, 1)]
        self.losses: list[float] = []
        self._pass = steps_of_pass

    def next_block(self) -> Block:
        done, steps = len(self.losses), self._pass or 1
        if done * steps == len(self.schedule):
            return Block(DONE)
        return Block(TIMED, done + 1 if self._pass else 0, steps, done * steps)

    def enqueued(self) -> None:
        pass

    def end_block(self, loss: float) -> None:
        self.losses.append(loss)

    def running_accuracy(self, accuracy: float) -> None:
        pass

    def progress(self) -> tuple[int, int]:
        return len(self.losses), len(self.schedule)


def loader_samples(adapter: TrainingAdapter, program: Program, cell_folder: Path) -> Tensors:
    """Return which samples the framework's own loader puts into slot 0: (passes, batches, rows of a batch).

    All batches of each pass, and one more if there is one.
    """
    rows = program.batch
    samples = NumberedSamples(cell_folder, rows, _classes(program), rows // 2)
    found = np.full((PASSES, samples.batches + 1, rows), MISSING)
    for of_pass, epoch in zip(found, range(1, PASSES + 1), strict=True):
        samples.start(epoch)
        for place, batch in zip(of_pass, adapter.loader(samples), strict=False):
            adapter.take(batch)
            numbers = samples.numbers_of(*adapter.taken())
            place[:] = STRANGE
            place[: len(numbers)] = numbers[:rows]
    adapter.close()
    extra = int((found[:, -1] != MISSING).any())
    return {"loader/samples": found[:, : samples.batches + extra]}


def loader_losses(adapter: TrainingAdapter, program: Program, cell_folder: Path) -> Tensors:
    """Return the losses of steps on batches of the framework's own loader, and of the same steps on staged
    batches with the same contents: (2, steps).

    Both begin with the parameters of the cell folder. Nothing if the program drops elements, and its
    generator cannot begin again.
    """
    samples = UnnumberedSamples(cell_folder, program.batch, _classes(program), program.batch // 2)
    largest = _largest_rate(cell_folder)
    parameters = read_tensors(cell_folder / "parameters.safetensors")
    drops = any(node.op == "dropout" for node in program.training.nodes)
    contents: list[tuple[np.ndarray, np.ndarray]] = []

    def keep() -> None:
        inputs, labels = adapter.taken()
        contents.append((np.array(inputs, samples.dtype), np.array(labels, np.int32)))

    def trained(
        batches: Iterable[Any], give: Callable[[Any], None], after: Callable[[], None]
    ) -> list[float]:
        adapter.set_state(parameters)
        if drops:
            adapter.seed_masks(1)
        losses: list[float] = []
        seconds = 0.0
        for number, batch in enumerate(islice(batches, MAX_STEPS)):
            begin = time.monotonic()
            give(batch)
            adapter.step(0, SHARES[number % len(SHARES)] * largest, number + 1)
            adapter.synchronize()
            losses.append(adapter.loss())
            seconds += time.monotonic() - begin
            after()
            if len(losses) >= MIN_STEPS and seconds > STEP_SECONDS:
                break
        return losses

    try:
        loaded = trained(adapter.loader(samples), adapter.take, keep)
    except Unsupported:
        return {}
    finally:
        adapter.close()
    staged = trained(contents, lambda batch: adapter.stage(0, *batch), lambda: None)
    return {"loader/losses": np.array([loaded[: len(staged)], staged])}


def fit_losses(adapter: TrainingAdapter, program: Program, cell_folder: Path) -> Tensors:
    """Return what shows in the framework's own loop.

    "loader/fit" (1 + passes, batches): the losses of all batches in the order of the data set, and those of
    each of its passes, without training.
    "loader/trained" (2): the loss of a sample after passes that train on only this one, and after the same
    steps without the loop. Nothing if the loss of a sample depends on the others, or on what is drawn.
    """
    nodes = program.training.nodes
    if any(node.op in ("batch_norm", "dropout") or "ignored" in node.attributes for node in nodes):
        return {}
    parameters = read_tensors(cell_folder / "parameters.safetensors")

    def fit(samples: NumberedSamples, supply: Any) -> None:
        adapter.train(Loop(adapter, supply, lambda *_: None), samples)
        adapter.close()

    samples = UnnumberedSamples(cell_folder, program.batch, _classes(program), 0)
    adapter.set_state(parameters)
    own = np.arange(len(samples)).reshape(samples.batches, program.batch)
    expected = [_loss(adapter, samples, rows.tolist()) for rows in own]
    steps = Steps([0.0] * PASSES * samples.batches)
    fit(samples, steps)
    answers = {"loader/fit": np.reshape([*expected, *steps.losses], (1 + PASSES, samples.batches))}

    alike = AlikeSamples(cell_folder, program.batch, _classes(program))
    rows = list(range(program.batch))
    rates = [share * _largest_rate(cell_folder) for share in FIT_SHARES for _ in range(alike.batches)]
    adapter.set_state(parameters)
    fit(alike, Steps(rates, alike.batches if _counts_epochs(cell_folder) else 0))
    trained = _loss(adapter, alike, rows)
    adapter.set_state(parameters)
    adapter.stage(0, *alike.batch(rows))
    for number, rate in enumerate(rates, 1):
        adapter.step(0, rate, number)
    adapter.synchronize()
    return answers | {"loader/trained": np.array([trained, _loss(adapter, alike, rows)])}


def _counts_epochs(cell_folder: Path) -> bool:
    clock = json.loads((cell_folder / "request.json").read_text()).get("clock") or {}
    return bool(clock.get("kind") == "epochs")


def _largest_rate(cell_folder: Path) -> float:
    return float(np.load(cell_folder / "schedule.npy")[:, 0].max())


def _classes(program: Program) -> int:
    return program.training.values[program.training.outputs["logits"]].shape[-1]


def _loss(adapter: TrainingAdapter, samples: NumberedSamples, rows: list[int]) -> float:
    """The mean cross-entropy of these samples with the present parameters."""
    inputs, labels = samples.batch(rows)
    logits = np.float64(adapter.evaluate(inputs))
    shifted = logits - logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[..., np.newaxis], -1)[..., 0]
    return float((np.log(np.exp(shifted).sum(-1)) - chosen).mean())
