"""Labels of several positions: the batch library through ctypes, and the samples of an own loader."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from assay_worker.batch import EVALUATE, Supply
from assay_worker.samples import Samples
from worker_under_test import LIBRARY

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

SAMPLES, BATCH, LENGTH, CLASSES = 10, 4, 5, 7
TOKENS = np.random.default_rng(1).integers(0, CLASSES, (SAMPLES, LENGTH), dtype="i4")
LABELS = np.random.default_rng(2).integers(0, CLASSES, (SAMPLES, LENGTH), dtype="i4")
ORDER = np.random.default_rng(3).permutation(SAMPLES)


@pytest.fixture
def cell(tmp_path: Path) -> Path:
    for part in ("data", "epochs"):
        (tmp_path / part).mkdir()
    np.save(tmp_path / "data/inputs.npy", TOKENS)
    np.save(tmp_path / "data/labels.npy", LABELS)
    plan = np.zeros((SAMPLES, 4), "i4")
    plan[:, 0] = ORDER
    np.save(tmp_path / "epochs/0001.plan.npy", plan)
    np.save(tmp_path / "schedule.npy", np.ones((100, 2)))
    split = {"inputs": "data/inputs.npy", "labels": "data/labels.npy", "first": 0, "count": SAMPLES}
    manifest = {
        "schema": "assay-data/1",
        "name": "little",
        "kind": "array",
        "sample_shape": [LENGTH],
        "classes": CLASSES,
        "vocabulary": CLASSES,
        "positions": LENGTH,
        "normalisation": {"scale": [1], "shift": [0]},
        "splits": {"train": split},
    }
    (tmp_path / "data/manifest.json").write_text(json.dumps(manifest))
    request = {
        "protocol": 1,
        "task": "train",
        "mode": "eager",
        "precision": "fp32",
        "batch": BATCH,
        "loader": {"kind": "harness", "workers": 1, "prefetch": 2},
        "clock": {"kind": "epochs", "epochs": 1, "evaluate": ["train"]},
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    return tmp_path


def test_a_batch_has_a_label_for_each_position(cell: Path) -> None:
    supply = Supply(cell, LIBRARY)
    assert supply.labels.shape == (BATCH, LENGTH)
    block = supply.next_block()
    for step in range(block.steps):
        supply.next_batch()
        rows = ORDER[step * BATCH : (step + 1) * BATCH]
        np.testing.assert_array_equal(supply.inputs, TOKENS[rows])
        np.testing.assert_array_equal(supply.labels, LABELS[rows])
    supply.end_block(0.5)
    assert supply.next_block().kind == EVALUATE
    with pytest.raises(ValueError, match=r"expected \(4, 5, 7\)"):
        supply.add_logits(np.zeros((BATCH, CLASSES), "f4"))
    supply.close()


def test_an_evaluation_counts_positions(cell: Path) -> None:
    supply = Supply(cell, LIBRARY)
    for _ in range(supply.next_block().steps):
        supply.next_batch()
    supply.end_block(0.5)
    for _ in range(supply.next_block().steps):
        supply.next_batch()
        logits = np.eye(CLASSES, dtype="f4")[supply.labels]  # of padding the last class, which does not count
        logits[:, 0] = 0  # a tie, which class 0 wins
        supply.add_logits(logits)
    supply.end_block(0.0)
    supply.close()
    (found,) = json.loads((cell / "results/clock.json").read_text())["evaluations"]
    assert found["samples"] == SAMPLES * LENGTH
    right = LABELS[:, 1:].size + np.count_nonzero(LABELS[:, 0] == 0)
    assert found["accuracy"] == pytest.approx(right / LABELS.size)


def test_the_samples_of_an_own_loader_have_the_same_labels(cell: Path) -> None:
    samples = Samples(cell)
    for index, sample in enumerate(ORDER.tolist()):
        tokens, labels = samples[index]
        assert isinstance(labels, np.ndarray)
        assert labels.dtype == np.int64
        np.testing.assert_array_equal(tokens, TOKENS[sample])
        np.testing.assert_array_equal(labels, LABELS[sample])
