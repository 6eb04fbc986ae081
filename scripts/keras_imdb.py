"""Convert Keras's imdb.npz to inputs.npy and labels.npy, which `assay` reads as the data set `imdb`.

    keras_imdb.py ARCHIVE FOLDER TRAIN TEST     FOLDER exists; TRAIN and TEST: the samples of each half

imdb.npz is a zip archive of x_train.npy, y_train.npy, x_test.npy and y_test.npy. x is a pickled array of
lists of word ranks (1 is the most frequent word), one list per text; y is 0 (negative) or 1 (positive).

A pickle is a program. Before it runs, the kernel is told to refuse this process every system call but those
for memory and for the files that are already open. scripts/fetch-data starts it with a Python that has NumPy.
"""

from __future__ import annotations

import codecs
import ctypes
import errno
import io
import os
import resource
import sys
import warnings
from pathlib import Path
from typing import IO, Any

import numpy as np

# The same values as in harness/conductor/data/text_tokens.hpp.
PADDING, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
VOCABULARY = 5000
LENGTH = 500

ALLOWED = (
    *("read", "write", "close", "lseek", "fstat", "newfstatat", "exit", "exit_group", "rt_sigreturn"),
    *("brk", "mmap", "munmap", "mremap", "madvise", "futex", "getrandom", "clock_gettime"),
)
MAX_MEMORY = 1 << 30
MAX_FILE = 256 << 20  # the published archive makes 100 MB
MAX_SECONDS = 60  # of the processor

# libseccomp's values: seccomp.h.
ALLOW, REFUSE, ALL_THREADS = 0x7FFF0000, 0x00050000 | errno.EPERM, 4


def confine() -> None:
    """Leave this process its memory and its open files, for good. Raises OSError if the kernel cannot."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(REFUSE))
    failed = library.seccomp_attr_set(rules, ALL_THREADS, 1)
    for name in ALLOWED:
        number = library.seccomp_syscall_resolve_name(name.encode())
        failed = failed or library.seccomp_rule_add_array(rules, ALLOW, number, 0, None)
    if failed := failed or library.seccomp_load(rules):
        raise OSError(-failed, os.strerror(-failed))


def load_what_numpy_loads_late() -> None:
    """Read an array of lists, because no module can be loaded later."""
    warnings.simplefilter("ignore")
    import numpy.core.multiarray  # noqa: F401  the name in old pickles

    codecs.lookup("latin1")  # protocol 2 encodes bytes by it
    content = io.BytesIO()
    np.savez_compressed(content, x=np.array([[1], [2, 3]], dtype=object))
    content.seek(0)
    np.load(content, allow_pickle=True)["x"]


def tokens_of(ranks: list[int], length: int = LENGTH) -> np.ndarray[Any, Any]:
    """Return the same row as keras.datasets.imdb.load_data(num_words=5000) and pad_sequences(maxlen=500).

    The word of rank r is r + 3. A text that is too long loses its beginning, first the start token. A short
    text is padded at the beginning.
    """
    row = np.full(length, PADDING, np.int32)
    kept = np.array(ranks[-length:])
    if len(kept) < length:
        row[length - len(kept) - 1] = START
    if len(kept) > 0:
        if kept.ndim != 1 or kept.dtype.kind != "i" or kept.min() < 0:
            raise ValueError("has a text that is not a list of ranks")
        row[length - len(kept) :] = np.where(kept < VOCABULARY - FIRST_WORD, kept + FIRST_WORD, UNKNOWN)
    return row


def read_half(archive: Any, half: str, samples: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the tokens and the labels."""
    texts, labels = archive[f"x_{half}"], archive[f"y_{half}"]
    if not len(texts) == len(labels) == samples:
        raise ValueError(f"has {len(texts)} texts and {len(labels)} labels to {half}, wanted {samples}")
    if labels.ndim != 1 or labels.dtype.kind not in "biu" or not np.isin(labels, (0, 1)).all():
        raise ValueError(f"has labels to {half} that are not 0 or 1")
    return np.stack([tokens_of(text) for text in texts]), labels.astype(np.int32)


def write(array: np.ndarray[Any, Any], file: IO[bytes]) -> None:
    content = io.BytesIO()  # numpy would duplicate the descriptor of a file
    np.save(content, array)
    file.write(content.getbuffer())
    file.flush()


def main() -> int:
    path, folder, counts = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    train, test = map(int, counts)
    for limit, most in (
        (resource.RLIMIT_AS, MAX_MEMORY),
        (resource.RLIMIT_FSIZE, MAX_FILE),
        (resource.RLIMIT_CPU, MAX_SECONDS),
    ):
        resource.setrlimit(limit, (most, most))
    load_what_numpy_loads_late()
    with (
        path.open("rb") as file,
        (folder / "inputs.npy").open("wb") as inputs,
        (folder / "labels.npy").open("wb") as labels,
    ):
        try:
            confine()
        except OSError as error:
            print(f"it needs libseccomp2 and a kernel with seccomp, to confine it: {error}", file=sys.stderr)
            return 1
        try:
            archive = np.load(file, allow_pickle=True)
            trained, held = read_half(archive, "train", train), read_half(archive, "test", test)
            # The archive's test half is ordered by class: its samples 0, 2, 4, ... are for validation.
            for target, one, other in zip((inputs, labels), trained, held, strict=True):
                write(np.concatenate([one, other[0::2], other[1::2]]), target)
        except Exception as error:  # also what a pickle raises
            print(str(error) or type(error).__name__, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
