"""Crops and mirroring of the batch library against numpy: pad, cut out, turn round."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
from assay_worker.batch import Supply
from assay_worker.samples import Samples
from worker_under_test import LIBRARY

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

SAMPLES, BATCH, MOST = 24, 4, 4
SCALE, SHIFT = np.array([0.5, 2, 0.25], "f4"), np.array([0, -1, 3], "f4")


def write_cell(folder: Path, raw: np.ndarray, plan: np.ndarray, loader: dict[str, object]) -> None:
    for part in ("data", "epochs"):
        (folder / part).mkdir(parents=True)
    np.save(folder / "data/inputs.npy", raw)
    np.save(folder / "data/labels.npy", np.arange(SAMPLES, dtype="i4") % 5)
    np.save(folder / "epochs/0001.plan.npy", plan.astype("i4"))
    np.save(folder / "schedule.npy", np.ones((100, 2)))
    split = {"inputs": "data/inputs.npy", "labels": "data/labels.npy", "first": 0, "count": SAMPLES}
    manifest = {
        "schema": "assay-data/1",
        "name": "little",
        "kind": "array",
        "sample_shape": raw.shape[1:],
        "classes": 5,
        "normalisation": {"scale": SCALE.tolist(), "shift": SHIFT.tolist()},
        "splits": {"train": split},
    }
    (folder / "data/manifest.json").write_text(json.dumps(manifest))
    clock = {"kind": "epochs", "epochs": 1, "evaluate": ["train"]}
    if loader["kind"] == "resident":
        clock = {"kind": "steps", "blocks": 1}
    request = {
        "protocol": 1,
        "task": "train",
        "mode": "eager",
        "precision": "fp32",
        "batch": BATCH,
        "loader": loader,
        "clock": clock,
    }
    (folder / "request.json").write_text(json.dumps(request))


def expected(image: np.ndarray, dx: int, dy: int, flip: int) -> np.ndarray:
    height, width = image.shape[1:]
    padded = np.pad(image, ((0, 0), (MOST, MOST), (MOST, MOST)))
    view = padded[:, MOST + dy : MOST + dy + height, MOST + dx : MOST + dx + width]
    if flip:
        view = view[:, :, ::-1]
    return view.astype("f4") * SCALE[:, None, None] + SHIFT[:, None, None]


def random_plan(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    columns = [
        random.permutation(SAMPLES),
        *random.integers(-MOST, MOST + 1, (2, SAMPLES)),
        random.integers(0, 2, SAMPLES),
    ]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("dtype", ["u1", "f4"])
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_is_cropped_and_mirrored_as_its_plan_says(tmp_path: Path, dtype: str, workers: int) -> None:
    raw = np.random.default_rng(1).integers(1, 256, (SAMPLES, 3, 9, 7)).astype(dtype)
    plan = random_plan(2)
    assert len({tuple(row[1:]) for row in plan.tolist()}) > SAMPLES // 2
    write_cell(tmp_path, raw, plan, {"kind": "harness", "workers": workers, "prefetch": 2})
    supply = Supply(tmp_path, LIBRARY)
    block = supply.next_block()
    assert block.steps == SAMPLES // BATCH
    for step in range(block.steps):
        supply.next_batch()
        for i, (sample, dx, dy, flip) in enumerate(plan[step * BATCH :][:BATCH].tolist()):
            np.testing.assert_array_equal(supply.inputs[i], expected(raw[sample], dx, dy, flip))
            assert supply.labels[i] == sample % 5
    supply.end_block(0.0)
    # An evaluation sees the unchanged images.
    supply.next_block()
    supply.next_batch()
    np.testing.assert_array_equal(supply.inputs[1], expected(raw[1], 0, 0, 0))
    supply.close()


def test_resident_batches_are_cropped_too(tmp_path: Path) -> None:
    raw = np.random.default_rng(1).integers(1, 256, (SAMPLES, 3, 9, 7)).astype("u1")
    plan = random_plan(3)
    write_cell(tmp_path, raw, plan, {"kind": "resident", "resident_batches": 2})
    supply = Supply(tmp_path, LIBRARY)
    supply.read_resident(1)
    for i, (sample, dx, dy, flip) in enumerate(plan[BATCH : 2 * BATCH].tolist()):
        np.testing.assert_array_equal(supply.inputs[i], expected(raw[sample], dx, dy, flip))
    supply.close()


@pytest.mark.parametrize("dtype", ["u1", "f4"])
def test_a_frameworks_own_loader_is_given_the_same_samples(tmp_path: Path, dtype: str) -> None:
    raw = np.random.default_rng(1).integers(1, 256, (SAMPLES, 3, 9, 7)).astype(dtype)
    plan = random_plan(5)
    write_cell(tmp_path, raw, plan, {"kind": "native", "workers": 0})
    samples = Samples(tmp_path)
    samples.start(7)  # there is one plan
    assert len(samples) == SAMPLES
    assert samples.moved
    for i, (sample, dx, dy, flip) in enumerate(plan.tolist()):
        inputs, label = samples[i]
        assert inputs.dtype == np.float32
        np.testing.assert_array_equal(inputs, expected(raw[sample], dx, dy, flip))
        assert label == sample % 5


def test_a_loaders_kept_process_sees_the_plan_of_each_epoch(tmp_path: Path) -> None:
    raw = np.random.default_rng(1).integers(1, 256, (SAMPLES, 3, 9, 7)).astype("u1")
    plans = [random_plan(seed) for seed in (5, 6)]
    write_cell(tmp_path, raw, plans[0], {"kind": "native", "workers": 1})
    np.save(tmp_path / "epochs/0002.plan.npy", plans[1].astype("i4"))
    samples = Samples(tmp_path)
    fork = multiprocessing.get_context("fork")
    epochs, labels = fork.SimpleQueue(), fork.SimpleQueue()

    def worker() -> None:
        while epochs.get():
            labels.put([samples[i][1] for i in range(SAMPLES)])

    process = fork.Process(target=worker)
    process.start()
    for epoch, plan in enumerate(plans, 1):
        samples.start(epoch)
        epochs.put(epoch)
        assert labels.get() == (plan[:, 0] % 5).tolist()
    epochs.put(None)
    process.join()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ((0, 7, 0, 0), "outside of the image"),
        ((0, 0, -9, 0), "outside of the image"),
        ((0, -(2**31), 0, 0), "outside of the image"),
        ((0, 0, 0, 2), "flip of 2"),
        ((SAMPLES, 0, 0, 0), "names sample"),
    ],
)
def test_a_plan_that_cannot_be_followed_is_refused(
    tmp_path: Path, row: tuple[int, int, int, int], reason: str
) -> None:
    raw = np.zeros((SAMPLES, 3, 9, 7), "u1")
    plan = random_plan(4)
    plan[5] = row
    write_cell(tmp_path, raw, plan, {"kind": "resident", "resident_batches": 2})
    with pytest.raises(RuntimeError, match=reason):
        Supply(tmp_path, LIBRARY)
