"""scripts/lab/stand-in-data: random files in the formats of publishers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from program import assay
from worker_under_test import ROOT

sys.path.insert(0, str(ROOT / "scripts/lab"))

import stand_in_data as data

SCRIPT = ROOT / "scripts/lab/stand_in_data.py"


def test_texts_have_the_lengths_of_the_reviews() -> None:
    lengths = data.lengths_of_texts(50_000, np.random.default_rng(1))
    assert lengths.mean() == pytest.approx(data.MEAN_LENGTH, rel=0.02)
    assert lengths.std() == pytest.approx(data.DEVIATION, rel=0.05)
    assert lengths.min() >= 1


def test_texts_are_padded_in_front_and_few_words_are_most_of_them() -> None:
    texts = data.texts(640, np.random.default_rng(1))
    assert texts.shape == (640, 500)
    assert (texts.min(), texts.max()) == (0, 4999)
    words = texts != 0
    first = words.argmax(axis=1)
    assert all(row[place:].all() for row, place in zip(words, first, strict=True))
    assert 0.3 < words.mean() < 0.6
    # A batch of 32 touches about 1,900 of the 5,000 rows of a table; with equal frequencies it were 4,200.
    touched = [len(np.unique(batch)) for batch in texts.reshape(20, 32, -1)]
    assert 1500 < np.mean(touched) < 2300
    counts = np.sort(np.bincount(texts[texts > 2], minlength=5000))[::-1]
    assert counts[0] / counts[9] == pytest.approx(10, rel=0.25), "Zipf's law"


def test_images_have_ten_equal_classes() -> None:
    records = data.image_records(1000, np.random.default_rng(1))
    assert records.shape == (1000, 3073)
    assert np.bincount(records[:, 0]).tolist() == [100] * 10
    assert records[:, 1:].mean() == pytest.approx(127.5, abs=1)


def test_the_program_reads_them_and_they_are_never_overwritten(tmp_path: Path) -> None:
    for name in ("cifar10", "imdb"):
        command = [sys.executable, str(SCRIPT), name, "--to", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        again = subprocess.run(command, capture_output=True, text=True, check=False)
        assert again.returncode == 2
        assert "never overwritten" in again.stderr
    listed = assay("list", "datasets", "--data", tmp_path)
    rows = [line.split() for line in listed.stdout.splitlines()]
    states = {row[0]: row[4] for row in rows if len(row) > 4 and row[0] in ("cifar10", "imdb")}
    assert states == {"cifar10": "here", "imdb": "here"}, listed.stdout
    assert f"cifar10: in {tmp_path}/cifar10" in listed.stdout
