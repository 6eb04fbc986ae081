"""Which samples a framework's own loader gives: loaders on plain numpy, right ones and wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from assay_worker.exam_loader import (
    LABELLED_AS_ANOTHER,
    MISSING,
    STRANGE,
    NumberedSamples,
    fit_losses,
    loader_losses,
    loader_samples,
)
from assay_worker.samples import Samples
from assay_worker.tensors import write_tensors

BATCH, CLASSES = 8, 5
SCALE, SHIFT = [1 / 255, 0.5, 2.0], [0.0, -1.0, 3.0]
Batch = tuple[np.ndarray, np.ndarray]


@pytest.fixture(params=["images", "floats", "tokens", "positions"])
def cell(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A cell folder with 20 samples; images are cropped and mirrored."""
    for part in ("data", "epochs"):
        (tmp_path / part).mkdir()
    kind = request.param
    text = kind in ("tokens", "positions")
    shape = (7,) if text else (3, 6, 5)
    dtype = {"images": "u1", "floats": "f4"}.get(kind, "i4")
    np.save(tmp_path / "data/inputs.npy", np.zeros((20, *shape), dtype))
    np.save(tmp_path / "data/labels.npy", np.zeros((20, 7) if kind == "positions" else 20, "i4"))
    plan = np.zeros((20, 4), "i4")
    plan[:, 0] = np.arange(20)
    if not text:
        plan[:, 1:] = np.random.default_rng(1).integers(-2, 3, (20, 3))
        plan[:, 3] %= 2
    np.save(tmp_path / "epochs/0001.plan.npy", plan)
    manifest: dict[str, Any] = {
        "kind": "array",
        "sample_shape": shape,
        "splits": {
            "train": {"inputs": "data/inputs.npy", "labels": "data/labels.npy", "first": 0, "count": 20}
        },
    }
    manifest |= {"vocabulary": 50} if text else {"normalisation": {"scale": SCALE, "shift": SHIFT}}
    (tmp_path / "data/manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "request.json").write_text(json.dumps({"precision": "fp32"}))
    return tmp_path


class Adapter:
    """Its loader shuffles in each pass; `change` makes another one of it."""

    def __init__(self, change: Callable[[Adapter, Samples], Iterator[Batch]] | None = None) -> None:
        self.change, self.random = change, np.random.default_rng(3)
        self.kept: list[Batch] = []
        self.closed = False

    def batches(self, samples: Samples, order: np.ndarray) -> Iterator[Batch]:
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            inputs, labels = zip(*(samples[i] for i in order[begin : begin + BATCH].tolist()), strict=True)
            yield np.stack(inputs), np.stack(labels)

    def shuffled(self, samples: Samples) -> Iterator[Batch]:
        return self.batches(samples, self.random.permutation(len(samples)))

    def loader(self, samples: Samples) -> Iterator[Batch]:
        return self.change(self, samples) if self.change else self.shuffled(samples)

    def take(self, batch: Batch) -> None:
        self.slot = batch

    def taken(self) -> Batch:
        return self.slot

    def close(self) -> None:
        self.closed = True


def program() -> Any:
    values = {"logits": SimpleNamespace(shape=(BATCH, CLASSES))}
    return SimpleNamespace(batch=BATCH, training=SimpleNamespace(values=values, outputs={"logits": "logits"}))


def found(cell: Path, change: Callable[[Adapter, Samples], Iterator[Batch]] | None = None) -> np.ndarray:
    adapter: Any = Adapter(change)
    numbers = loader_samples(adapter, program(), cell)["loader/samples"]
    assert adapter.closed
    return numbers


def is_wrong(numbers: np.ndarray) -> bool:
    """What the conductor judges: tests/unit/conductor/check/audit_test.cpp."""
    passes = numbers.reshape(2, -1)
    plain = np.arange(passes.shape[1])
    near = max((np.abs(of_pass - plain) <= 0.05 * passes.shape[1]).mean() for of_pass in passes)
    twice = any(len(set(of_pass)) < len(of_pass) for of_pass in passes.tolist())
    return bool((passes < 0).any() or twice or near > 0.5 or (passes[0] == passes[1]).mean() > 0.5)


def test_each_sample_of_a_shuffled_pass_is_recognized(cell: Path) -> None:
    numbers = found(cell)
    assert numbers.shape == (2, 32, BATCH)
    assert numbers.min() >= 0
    assert numbers.max() < 32 * BATCH + BATCH // 2
    assert not is_wrong(numbers)


def forever(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    adapter.kept = adapter.kept or list(adapter.shuffled(samples))[:10]
    while True:
        yield from adapter.kept


def twice(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    for batch in adapter.shuffled(samples):
        yield batch
        yield batch


def half(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    return adapter.batches(samples, adapter.random.permutation(len(samples) // 2))


def in_order(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    return adapter.batches(samples, np.arange(len(samples)))


def one_order(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    return adapter.batches(samples, np.random.default_rng(1).permutation(len(samples)))


def other_labels(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    return ((inputs, np.roll(labels, 1, 0)) for inputs, labels in adapter.shuffled(samples))


def labels_of_places(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    """As if the plan listed the samples in their order."""
    order = adapter.random.permutation(len(samples))
    for number, (inputs, labels) in enumerate(adapter.batches(samples, order)):
        yield inputs, samples.labels[order[number * BATCH :][: len(labels)]]


def halved(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
    return ((inputs.astype(np.float16), labels) for inputs, labels in adapter.shuffled(samples))


@pytest.mark.parametrize(
    "mistake", [forever, twice, half, in_order, one_order, other_labels, labels_of_places]
)
def test_a_loader_that_gives_other_samples_is_wrong(cell: Path, mistake: Any) -> None:
    assert is_wrong(found(cell, mistake))


def test_what_is_missing_or_of_another_sample_is_named(cell: Path) -> None:
    assert (found(cell, half)[:, -1] == MISSING).all()
    assert (found(cell, other_labels) == LABELLED_AS_ANOTHER).mean() > 0.5
    assert found(cell, forever).shape[1] == 33, "one batch too many"


@pytest.mark.parametrize("cell", ["images", "floats"], indirect=True)
@pytest.mark.parametrize(
    "column", [pytest.param(slice(1, 3), id="no crops"), pytest.param(slice(3, 4), id="never mirrored")]
)
def test_samples_that_are_not_augmented_are_strange(cell: Path, column: slice) -> None:
    def plain(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
        samples.rows[:, column] = 0
        return adapter.shuffled(samples)

    assert (found(cell, plain) == STRANGE).mean() > 0.3


@pytest.mark.parametrize("cell", ["images", "floats"], indirect=True)
def test_pixels_of_half_precision_are_strange_unless_the_cell_has_it(cell: Path) -> None:
    assert (found(cell, halved) == STRANGE).mean() > 0.9
    (cell / "request.json").write_text(json.dumps({"precision": "bf16"}))
    assert not is_wrong(found(cell, halved))


@pytest.mark.parametrize("cell", ["floats"], indirect=True)
def test_numbers_of_own_arrays_are_near_one(cell: Path) -> None:
    samples = NumberedSamples(cell, BATCH, CLASSES, 0)
    raw = (samples[0][0] - samples.shift) / np.reshape(SCALE, (-1, 1, 1))
    assert 0.9 < np.abs(raw).max() < 1.01


@pytest.mark.parametrize("cell", ["images"], indirect=True)
def test_pixels_that_are_not_normalised_are_strange(cell: Path) -> None:
    def unscaled(adapter: Adapter, samples: Samples) -> Iterator[Batch]:
        return ((255 * inputs, labels) for inputs, labels in adapter.shuffled(samples))

    assert (found(cell, unscaled) == STRANGE).all()


@pytest.mark.parametrize("cell", ["images"], indirect=True)
def test_a_pass_has_the_moves_of_the_cell(cell: Path) -> None:
    samples = NumberedSamples(cell, BATCH, CLASSES, BATCH // 2)
    assert len(samples) == 32 * BATCH + BATCH // 2
    assert np.abs(samples.rows[:, 1:3]).max() == 2
    assert set(samples.rows[:, 3].tolist()) == {0, 1}
    first = samples.rows.copy()
    samples.start(2)
    assert (first != samples.rows).any()
    np.testing.assert_array_equal(samples.labels[:6], [0, 1, 2, 3, 4, 0])
    assert (samples.rows[:, 0] != np.arange(len(samples))).any()


class Trains(Adapter):
    """Its parameter is a number that its losses pull down. `reads` chooses from the batches that it took.

    late: its steps on them have the first learning rate.
    """

    def __init__(
        self, reads: Callable[[list[Batch]], Batch] = lambda taken: taken[-1], late: bool = False
    ) -> None:
        super().__init__()
        self.reads, self.late = reads, late

    def set_state(self, tensors: Any) -> None:
        self.number, self.all_taken, self.rates = 1.0, [], [0.0]

    def take(self, batch: Batch) -> None:
        super().take(batch)
        self.all_taken.append(batch)

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        assert slot == 0
        assert labels.dtype == np.int32
        self.slot, self.all_taken = (inputs, labels), []

    def step(self, slot: int, rate: float, step: int) -> None:
        self.rates.append(rate)
        inputs, labels = self.reads(self.all_taken) if self.all_taken else self.slot
        size = 1 + np.float64(inputs).mean() % 1 + labels.mean()
        self.last = float(self.number * size)
        rate = self.rates[1] if self.late and self.all_taken else rate
        self.number -= 0.01 * rate * size

    def loss(self) -> float:
        return self.last

    def synchronize(self) -> None:
        pass


def half_twice(taken: list[Batch]) -> Batch:
    inputs, labels = (np.concatenate([part[: BATCH // 2]] * 2) for part in taken[-1])
    return inputs, labels


@pytest.mark.parametrize(
    ("adapter", "right"),
    [
        pytest.param(Trains(), True, id="right"),
        pytest.param(Trains(lambda taken: taken[0]), False, id="the first batch for ever"),
        pytest.param(Trains(lambda taken: taken[-2:][0]), False, id="the batch before"),
        pytest.param(Trains(lambda taken: (taken[-1][0], taken[0][1])), False, id="other labels"),
        pytest.param(Trains(half_twice), False, id="half of the batch"),
        pytest.param(Trains(late=True), False, id="the first rate"),
    ],
)
def test_steps_on_the_loaders_batches_are_those_on_staged_ones(cell: Path, adapter: Any, right: bool) -> None:
    write_tensors(cell / "parameters.safetensors", {})
    np.save(cell / "schedule.npy", [[0.5, 1], [0.25, 2]])
    network = program()
    network.training.nodes = []
    loaded, staged = loader_losses(adapter, network, cell)["loader/losses"]
    assert len(loaded) == 12
    apart = np.abs(loaded / staged - 1).max()
    assert apart == 0 if right else apart > 1e-3


class Fits(Adapter):
    """It runs its own loop. The logits of a sample are multiples of its sum and of one parameter.

    in_loop: what the loop makes of the rate and number of a step; None: the step is lost.
    """

    def __init__(
        self,
        change: Callable[[Adapter, Samples], Iterator[Batch]] | None = None,
        in_loop: Callable[[float, int], float | None] = lambda rate, _: rate,
    ) -> None:
        super().__init__(change)
        self.in_loop = in_loop

    def set_state(self, tensors: Any) -> None:
        self.number = 1.0

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.slot = inputs, labels

    def step(self, slot: int, rate: float, step: int) -> None:
        self.number -= 0.1 * rate * self.loss()

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        sums = self.number * np.sin(inputs.reshape(len(inputs), -1).sum(1, dtype=np.float64))
        return (sums[:, np.newaxis] * np.arange(CLASSES)).astype("f4")

    def synchronize(self) -> None:
        pass

    def running_accuracy(self) -> None:
        return None

    def loss(self) -> float:
        inputs, labels = self.slot
        logits = np.float64(self.evaluate(inputs))
        return float((np.log(np.exp(logits).sum(1)) - logits[np.arange(len(labels)), labels]).mean())

    def train(self, loop: Any, samples: Samples) -> None:
        batches = iter(())
        self.blocks = []
        while (row := loop.begin_step()) is not None:
            self.blocks.append((loop.epoch, loop.steps))
            batch = next(batches, None)
            if batch is None:
                batches = iter(self.loader(samples))
                batch = next(batches)
            self.take(batch)
            if (rate := self.in_loop(*row)) is not None:
                self.step(0, rate, row[1])
            loop.end_step()


def fitted(cell: Path, adapter: Any, kind: str = "steps") -> Any:
    write_tensors(cell / "parameters.safetensors", {})
    np.save(cell / "schedule.npy", [[0.5, 1], [0.25, 2]])
    (cell / "request.json").write_text(json.dumps({"precision": "fp32", "clock": {"kind": kind}}))
    network = program()
    network.training.nodes = []
    return fit_losses(adapter, network, cell)


@pytest.mark.parametrize("cell", ["images", "tokens"], indirect=True)
@pytest.mark.parametrize("mistake", [None, forever, twice, half, other_labels])
def test_the_losses_of_an_own_loop_show_other_samples(cell: Path, mistake: Any) -> None:
    adapter: Any = Fits(mistake)
    expected, *means = fitted(cell, adapter)["loader/fit"].mean(1)
    apart = max(abs(mean - expected) for mean in means) / expected
    assert apart < 1e-5 if mistake is None else apart > 2e-4
    assert adapter.closed


@pytest.mark.parametrize("cell", ["images", "tokens"], indirect=True)
def test_the_losses_of_an_own_loop_show_its_order(cell: Path) -> None:
    plain, *passes = fitted(cell, Fits(in_order))["loader/fit"]
    for of_pass in passes:
        np.testing.assert_allclose(of_pass, plain, rtol=1e-6)
    plain, *passes = fitted(cell, Fits())["loader/fit"]
    assert all((abs(of_pass / plain - 1) < 1e-5).mean() < 0.2 for of_pass in passes)


@pytest.mark.parametrize("cell", ["images", "tokens"], indirect=True)
@pytest.mark.parametrize("kind", ["steps", "epochs"])
@pytest.mark.parametrize(
    ("in_loop", "right"),
    [
        pytest.param(lambda rate, _: rate, True, id="right"),
        pytest.param(lambda rate, _: 0.05 if rate else 0.0, False, id="the first rate"),
        pytest.param(lambda rate, number: rate if number % 2 else None, False, id="lost steps"),
        pytest.param(lambda rate, number: rate if number <= 12 else None, False, id="one pass"),
    ],
)
def test_an_own_loop_trains_as_its_steps_do(cell: Path, in_loop: Any, right: bool, kind: str) -> None:
    adapter: Any = Fits(in_loop=in_loop)
    loop, steps = fitted(cell, adapter, kind)["loader/trained"]
    assert abs(loop - steps) < 1e-6 if right else abs(loop - steps) > 2e-3
    assert set(adapter.blocks) == ({(1, 12), (2, 12)} if kind == "epochs" else {(0, 1)})


@pytest.mark.parametrize(
    ("op", "attributes"), [("dropout", {}), ("batch_norm", {}), ("softmax_cross_entropy", {"ignored": 0})]
)
def test_losses_that_depend_on_other_samples_are_not_compared(
    tmp_path: Path, op: str, attributes: dict[str, int]
) -> None:
    network = program()
    network.training.nodes = [SimpleNamespace(op=op, attributes=attributes)]
    adapter: Any = Fits()
    assert fit_losses(adapter, network, tmp_path) == {}
