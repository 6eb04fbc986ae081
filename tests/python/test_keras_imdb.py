"""scripts/keras_imdb.py: Keras's imdb.npz becomes tokens, and a hostile archive can do nothing."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import keras_imdb
import numpy as np
import pytest
from assay_campaign.data import npy, overlapping

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/fetch-data"


def objects(items: list[Any]) -> np.ndarray[Any, Any]:
    """Return the items as numpy keeps them, also where all are lists of one length."""
    made = np.empty(len(items), dtype=object)
    for i, one in enumerate(items):
        made[i] = one
    return made


def archive_of(path: Path, **changed: Any) -> Path:
    members = {
        "x_train": objects([[1, 14, 300, 70_000], []]),
        "y_train": np.array([1, 0]),
        "x_test": objects([[2], [3]]),
        "y_test": np.array([0, 1]),
    }
    np.savez_compressed(path, **members | changed)
    return path


def converted(
    archive: Path, train: int = 2, test: int = 2, *python: str, sha256: str = "0" * 64, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Convert to the folder data next to the archive."""
    entry = {
        "url": "http://127.0.0.1:9/imdb.npz",
        "sha256": sha256,
        "convert": {"train": train, "test": test},
    }
    table = archive.with_name("table.json")
    table.write_text(json.dumps({"imdb": {"files": [entry]}}))
    options = ["--convert", str(archive), "--to", str(archive.parent / "data"), "--table", str(table)]
    command = [sys.executable, *python, str(SCRIPT), *options]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)


def arrays(archive: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    home = archive.parent / "data/imdb"
    return np.load(home / "inputs.npy"), np.load(home / "labels.npy")


def refusal(archive: Path, *counts: int) -> str:
    """Return why it is refused. No array is left."""
    done = converted(archive, *counts)
    assert done.returncode == 1, done.stdout
    assert done.stderr.count("\n") == 1
    home = archive.parent / "data/imdb"
    assert not home.exists() or not list(home.iterdir())
    return done.stderr


def test_the_rules_of_tokens_are_those_of_the_text_reader_in_cpp() -> None:
    header = (ROOT / "harness/conductor/data/text_tokens.hpp").read_text()
    given = {name: int(value) for name, value in re.findall(r"token_(\w+) = (\d+)", header)}
    assert given == {
        "padding": keras_imdb.PADDING,
        "start": keras_imdb.START,
        "unknown": keras_imdb.UNKNOWN,
        "first_word": keras_imdb.FIRST_WORD,
        "vocabulary": keras_imdb.VOCABULARY,
        "length": keras_imdb.LENGTH,
    }


def test_tokens_are_offset_padded_in_front_and_cut_in_front_as_keras_does() -> None:
    for ranks, length, tokens in (
        ([1, 7, 4996, 4997, 88_000], 8, [0, 0, 1, 4, 10, 4999, 2, 2]),
        ([], 3, [0, 0, 1]),
        ([5, 6], 3, [1, 8, 9]),
        ([5, 6, 7], 3, [8, 9, 10]),  # the start is cut first
        ([5, 6, 7, 8], 3, [9, 10, 11]),
    ):
        assert keras_imdb.tokens_of(ranks, length).tolist() == tokens


def test_arrays_are_those_that_keras_would_make(tmp_path: Path) -> None:
    random = np.random.default_rng(5)

    def half(count: int) -> tuple[list[list[int]], list[int]]:
        lengths = [0, 1, 498, 499, 500, 501, 900, 3, 17, 250]
        texts = [np.minimum(random.zipf(1.3, lengths[i % 10]), 88_584).tolist() for i in range(count)]
        return texts, random.integers(0, 2, count).tolist()

    def keras(texts: list[list[int]]) -> np.ndarray[Any, Any]:
        rows = np.zeros((len(texts), 500), np.int32)
        for row, text in zip(rows, texts, strict=True):
            words = np.array([1, *(rank + 3 for rank in text)])[-500:]
            row[500 - len(words) :] = np.where(words < 5000, words, 2)
        return rows

    (train, train_labels), (test, test_labels) = half(21), half(13)
    archive = archive_of(
        tmp_path / "imdb.npz",
        x_train=objects(train),
        y_train=train_labels,
        x_test=objects(test),
        y_test=test_labels,
    )
    done = converted(archive, 21, 13)
    assert done.returncode == 0, done.stderr
    inputs, labels = arrays(archive)
    held = keras(test)
    assert np.array_equal(inputs, np.concatenate([keras(train), held[0::2], held[1::2]]))
    assert labels.tolist() == train_labels + test_labels[0::2] + test_labels[1::2]
    assert (inputs.dtype, labels.dtype) == (np.dtype("<i4"), np.dtype("<i4"))


def test_a_pickle_with_the_names_of_numpy_1_is_read(tmp_path: Path) -> None:
    """As in the published archive."""
    archive = archive_of(tmp_path / "imdb.npz")
    changed = tmp_path / "old.npz"
    with zipfile.ZipFile(archive) as new, zipfile.ZipFile(changed, "w") as old:
        for name in new.namelist():
            content = new.read(name)
            if name == "x_train.npy":
                head = content[: content.index(b"\n") + 1]
                pickled = pickle.dumps(np.load(archive, allow_pickle=True)["x_train"], protocol=2)
                content = head + pickled.replace(b"cnumpy._core.", b"cnumpy.core.")
                assert b"cnumpy.core.multiarray\n" in content
            old.writestr(name, content)
    done = converted(changed)
    assert done.returncode == 0, done.stderr
    assert arrays(changed)[0][0, -5:].tolist() == [1, 4, 17, 303, 2]


class Evil:
    """A call that a pickle makes when it is read."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


IN_C = "import ctypes; raise ValueError(f'returned {ctypes.CDLL(None)."


@pytest.mark.parametrize(
    ("evil", "words"),
    [
        (Evil(open, "executed", "w"), "not permitted: 'executed'"),
        (Evil(open, "/etc/hostname"), "not permitted: '/etc/hostname'"),
        (Evil(os.unlink, "imdb.npz"), "not permitted: 'imdb.npz'"),
        (Evil(os.kill, os.getpid(), 9), "not permitted"),
        (Evil(os.fork), "not permitted"),
        (Evil(exec, IN_C + "socket(2, 1, 0)}')"), "returned -1"),
        (Evil(exec, IN_C + "socket(1, 1, 0)}')"), "returned -1"),
        (Evil(os.posix_spawn, "/bin/touch", ["touch", "executed"], {}), "not permitted"),
        (Evil(bytes, 1 << 40), "MemoryError"),
        (Evil(os._exit, 0), "exit code 0"),
        (Evil(exec, r"raise ValueError('a\nb\x1b[31m')"), "a b [31m"),
    ],
    ids=[
        "write",
        "read",
        "remove",
        "kill",
        "fork",
        "network",
        "local",
        "program",
        "memory",
        "end",
        "terminal",
    ],
)
def test_a_pickle_that_does_more_than_hold_lists_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evil: Evil, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    archive = archive_of(tmp_path / "imdb.npz", x_test=objects([[1], evil]))
    assert words in refusal(archive)
    assert archive.exists()
    assert not Path("executed").exists()


def test_nothing_is_read_where_the_process_cannot_be_confined(tmp_path: Path) -> None:
    evil = Evil(exec, f"open({str(tmp_path / 'executed')!r}, 'w')")
    archive = archive_of(tmp_path / "imdb.npz", x_train=objects([evil, [1]]))
    without_library = (
        "import keras_imdb, sys\n"
        "def missing(name): raise OSError(f'{name} is missing')\n"
        "keras_imdb.ctypes.CDLL = missing\n"
        "sys.exit(keras_imdb.main())\n"
    )
    command = [sys.executable, "-c", without_library, str(archive), str(tmp_path), "2", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "libseccomp.so.2 is missing" in done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"y_train": np.array([0, 2])}, "labels to train that are not 0 or 1"),
        ({"y_test": np.array([0.0, 1.0])}, "labels to test that are not 0 or 1"),
        ({"y_test": np.array([0])}, "has 2 texts and 1 labels to test, wanted 2"),
        ({"x_train": np.array([1, 2])}, "invalid index"),
        ({"x_train": objects([[1], ["1"]])}, "not a list of ranks"),
        ({"x_train": objects([[1], [2.0]])}, "not a list of ranks"),
        ({"x_train": objects([[1], [[1]]])}, "not a list of ranks"),
        ({"x_train": objects([[1], [-1]])}, "not a list of ranks"),
    ],
)
def test_members_of_other_types_and_values_are_refused(
    tmp_path: Path, changed: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(archive_of(tmp_path / "imdb.npz", **changed))


def test_other_files_are_refused_within_their_limits(tmp_path: Path) -> None:
    archive = tmp_path / "imdb.npz"
    assert "is not a file" in refusal(archive)
    os.mkfifo(archive)
    assert "is not a file" in refusal(archive)
    archive.unlink()
    archive.touch()
    os.truncate(archive, 1 << 40)
    assert "has 1099511627776 bytes, more than" in refusal(archive)
    assert "wanted 3" in refusal(archive_of(archive), 3)
    whole = archive.read_bytes()
    for size in (0, 1, 100, len(whole) - 1):
        archive.write_bytes(whole[:size])
        assert "cannot be converted" in refusal(archive)
    with zipfile.ZipFile(archive, "w") as bomb:
        bomb.writestr("x_train.npy", npy("<i8", f"({10**12},)"))
    assert "Unable to allocate" in refusal(archive)
    overlapping(archive, 60_000)
    assert "cannot be converted" in refusal(archive)


def test_an_archive_of_ones_own_is_converted_once(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "mine.npz")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    done = converted(archive)
    assert done.returncode == 0, done.stderr
    assert digest in done.stdout, "it is not the publisher's"
    home = tmp_path / "data/imdb"
    source = json.loads((home / "source.json").read_text())
    assert source == {"converted_from": "mine.npz", "bytes": archive.stat().st_size, "sha256": digest}
    assert sorted(path.name for path in home.iterdir()) == ["inputs.npy", "labels.npy", "source.json"]

    before = (home / "inputs.npy").stat().st_mtime_ns
    assert "inputs.npy and labels.npy are there" in converted(archive).stdout
    other = converted(archive_of(tmp_path / "other.npz", y_train=np.array([0, 0])))
    assert "come from another archive" in other.stderr
    assert (home / "inputs.npy").stat().st_mtime_ns == before


@pytest.mark.parametrize("source", ["", "[]", "{}", None])
def test_arrays_of_unknown_origin_are_not_overwritten(tmp_path: Path, source: str | None) -> None:
    archive = archive_of(tmp_path / "imdb.npz")
    home = tmp_path / "data/imdb"
    home.mkdir(parents=True)
    (home / "labels.npy").write_bytes(b"mine")
    if source is not None:
        (home / "source.json").write_text(source)
    done = converted(archive, sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    assert done.returncode == 1
    assert "remove inputs.npy, labels.npy" in done.stderr
    assert (home / "labels.npy").read_bytes() == b"mine"


def test_a_python_without_numpy_takes_that_of_a_framework(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "imdb.npz")
    environments = tmp_path / "environments"
    without_packages = ("-I", "-S")
    done = converted(archive, 2, 2, *without_packages, ASSAY_ENVIRONMENTS=str(environments))
    assert done.returncode == 1
    assert "`assay setup jax`" in done.stderr
    python = environments / "jax/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    done = converted(archive, 2, 2, *without_packages, ASSAY_ENVIRONMENTS=str(environments))
    assert done.returncode == 0, done.stderr
