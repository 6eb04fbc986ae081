"""The batch library of harness/batch/c_api.h through ctypes: the one loader, clock and evaluator."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int32, c_int64, c_void_p
from pathlib import Path
from typing import Any

import numpy as np

from .tensors import Tensors, copied

API = 8
MAX_READ_ELEMENTS = 1 << 22  # if the results of a step have more, none are kept
DONE, WARM_UP, TIMED, EVALUATE = range(4)
INPUT_TYPES = (np.float32, np.int32)  # ASSAY_F32, ASSAY_I32: images, tokens


class Layout(ctypes.Structure):
    """assay_layout."""

    _fields_ = (
        ("batch", c_int64),
        ("rank", c_int64),
        ("sample_shape", c_int64 * 8),
        ("sample_elements", c_int64),
        ("classes", c_int64),
        ("resident_batches", c_int64),
        ("schedule_rows", c_int64),
        ("input_type", c_int64),
        ("positions", c_int64),
    )


class Block(ctypes.Structure):
    """assay_block."""

    _fields_ = (("kind", c_int32), ("epoch", c_int32), ("steps", c_int64), ("first_step", c_int64))


AGREE = ctypes.CFUNCTYPE(c_int64, c_void_p, c_int64)  # assay_agree
# name: (result, arguments)
Signatures = dict[str, tuple[Any, list[Any]]]
COMMON: Signatures = {"assay_api_version": (c_int32, []), "assay_last_error": (c_char_p, [])}
SIGNATURES: Signatures = {
    "assay_open": (c_void_p, [c_char_p]),
    "assay_close": (ctypes.c_int, [c_void_p]),
    "assay_get_layout": (ctypes.c_int, [c_void_p, POINTER(Layout)]),
    "assay_schedule": (POINTER(c_double), [c_void_p]),
    "assay_read_resident": (ctypes.c_int, [c_void_p, c_int64, c_void_p, POINTER(c_int32)]),
    "assay_next_batch": (c_int64, [c_void_p, c_void_p, POINTER(c_int32)]),
    "assay_next_block": (ctypes.c_int, [c_void_p, POINTER(Block)]),
    "assay_end_block": (ctypes.c_int, [c_void_p, c_double]),
    "assay_running_accuracy": (ctypes.c_int, [c_void_p, c_double]),
    "assay_enqueued": (ctypes.c_int, [c_void_p]),
    "assay_lap": (ctypes.c_int, [c_void_p]),
    "assay_lap_prefill": (ctypes.c_int, [c_void_p]),
    "assay_results_read": (ctypes.c_int, [c_void_p]),
    "assay_add_logits": (ctypes.c_int, [c_void_p, POINTER(c_float)]),
    "assay_set_agree": (ctypes.c_int, [c_void_p, AGREE, c_void_p]),
    "assay_progress": (ctypes.c_int, [c_void_p, POINTER(c_int64), POINTER(c_int64)]),
}


def library_path() -> Path:
    """Return the path from the conductor, or else the path in a build or an installation."""
    if given := os.environ.get("ASSAY_BATCH_LIBRARY"):
        return Path(given)
    # Not resolved: a build has a link to the backend's folder in its source.
    backends = Path(os.path.abspath(sys.argv[0])).parent.parent  # noqa: PTH100
    tried = [
        backends.parent / "libassay_batch.so",
        backends.parent.parent.parent / "lib" / "libassay_batch.so",
    ]
    for path in tried:
        if path.exists():
            return path
    raise OSError(
        f"the batch library is missing: set ASSAY_BATCH_LIBRARY; tried {', '.join(map(str, tried))}"
    )


def load_library(path: Path, signatures: Signatures = SIGNATURES) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    for name, (result, arguments) in (COMMON | signatures).items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    if (version := library.assay_api_version()) != API:
        raise OSError(
            f"{path} has version {version} of the batch interface, this worker knows {API}: build it again"
        )
    return library


def last_error(library: ctypes.CDLL) -> str:
    return (library.assay_last_error() or b"[batch] no reason given").decode(errors="replace")


def _floats(array: np.ndarray) -> ctypes._Pointer[c_float]:
    return array.ctypes.data_as(POINTER(c_float))


class Supply:
    """One open cell folder. A failure is a RuntimeError with the library's message. Belongs to one thread."""

    def __init__(self, cell_folder: Path, library: Path | None = None) -> None:
        self._lib = load_library(library or library_path())
        self._error: Exception | None = None  # of a function that the library called
        self._handle = self._lib.assay_open(os.fsencode(cell_folder))
        if not self._handle:
            self._fail()
        self.layout = Layout()
        self._must(self._lib.assay_get_layout(self._handle, byref(self.layout)))
        self.read: Tensors = {}  # the results that were asked for last
        self._lap = self._lib.assay_lap
        rows = self._lib.assay_schedule(self._handle)
        count = self.layout.schedule_rows
        # Converted to Python floats once, so that a step only reads a list element.
        self.schedule: list[tuple[float, int]] = []
        if rows and count:
            table = np.ctypeslib.as_array(rows, (count, 2))
            self.schedule = list(
                zip(table[:, 0].tolist(), table[:, 1].astype(np.int64).tolist(), strict=True)
            )
        shape = tuple(self.layout.sample_shape[: self.layout.rank])
        self.inputs = np.zeros((self.layout.batch, *shape), INPUT_TYPES[self.layout.input_type])
        # One label for each sample, or one for each position of a sample.
        positions = (self.layout.positions,) if self.layout.positions else ()
        self.labels = np.zeros((self.layout.batch, *positions), np.int32)
        self._buffers = (self.inputs.ctypes.data, self.labels.ctypes.data_as(POINTER(c_int32)))

    def _fail(self) -> None:
        if self._error is not None:
            raise self._error
        raise RuntimeError(last_error(self._lib))

    def _must(self, result: int) -> int:
        if result < 0:
            self._fail()
        return result

    def set_agree(self, agree: Callable[[int], int]) -> None:
        """Let several ranks run the same blocks: Adapter.agree()."""

        def call(_: object, value: int) -> int:
            try:
                return agree(value)
            except Exception as error:  # ctypes would drop it
                self._error = error
                return -1

        self._agree = AGREE(call)  # the library keeps only the address
        self._must(self._lib.assay_set_agree(self._handle, self._agree, None))

    def read_resident(self, slot: int) -> None:
        """Fill `inputs` and `labels` with resident batch number `slot`."""
        self._must(self._lib.assay_read_resident(self._handle, slot, *self._buffers))

    def next_batch(self) -> int:
        """Fill `inputs` and `labels` with the next batch; return its number of samples without padding."""
        return self._must(self._lib.assay_next_batch(self._handle, *self._buffers))

    def next_block(self) -> Block:
        block = Block()
        self._must(self._lib.assay_next_block(self._handle, byref(block)))
        return block

    def end_block(self, loss: float) -> bool:
        """Return whether the results of the last step are asked for now: read_results()."""
        return self._must(self._lib.assay_end_block(self._handle, loss)) > 0

    def running_accuracy(self, accuracy: float) -> None:
        """Note what the loop counted in the block that ended last."""
        self._must(self._lib.assay_running_accuracy(self._handle, accuracy))

    def enqueued(self) -> None:
        """Note when every step of the block was handed over, before it waits for the device."""
        self._must(self._lib.assay_enqueued(self._handle))

    def lap(self) -> bool:
        """Return whether the step's results are asked for now: read_results()."""
        asked: int = self._lap(self._handle)
        if asked < 0:
            self._fail()
        return asked > 0

    def read_results(self, results: Callable[[], Tensors]) -> None:
        """Read the results of the last step twice: whether they were complete shows in the difference."""
        for _ in range(2):
            found = results()
            few = sum(tensor.size for tensor in found.values()) <= MAX_READ_ELEMENTS
            self.read = copied(found) if few else {}
            self._must(self._lib.assay_results_read(self._handle))

    def lap_prefill(self) -> None:
        self._must(self._lib.assay_lap_prefill(self._handle))

    def add_logits(self, logits: np.ndarray) -> None:
        logits = np.ascontiguousarray(logits, np.float32)
        if logits.shape != (expected := (*self.labels.shape, self.layout.classes)):
            raise ValueError(f"logits {logits.shape}: expected {expected}")
        self._must(self._lib.assay_add_logits(self._handle, _floats(logits)))

    def progress(self) -> tuple[int, int]:
        done, planned = c_int64(), c_int64()
        self._must(self._lib.assay_progress(self._handle, byref(done), byref(planned)))
        return done.value, planned.value

    def close(self) -> None:
        """Write results/clock.json and stop the loader's threads. Safe to call twice."""
        handle, self._handle = self._handle, None
        if handle:
            self._must(self._lib.assay_close(handle))
