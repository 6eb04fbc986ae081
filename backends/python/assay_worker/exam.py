"""The command verify: the batch library says what is staged, computed and read, and writes the results.

docs/reference/protocol.md, "The exam", has the whole script.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
from collections.abc import Callable
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_void_p
from enum import IntEnum
from pathlib import Path
from typing import cast

import numpy as np

from .adapter import Adapter, NetworkAdapter, TrainingAdapter
from .batch import Signatures, last_error, library_path, load_library
from .cell import SEEDS, Cell
from .errors import Unsupported
from .exam_loader import fit_losses, loader_losses, loader_samples
from .program import Program
from .tensors import Tensors


class Act(IntEnum):
    """ASSAY_EXAM_STAGE, ..."""

    STAGE = 1
    SET_STATE = 2
    STEP = 3
    PREFILL = 4
    NEXT_TOKEN = 5
    SYNCHRONIZE = 6
    RESULTS = 7
    STATE = 8
    LOSS = 9
    EVALUATE = 10
    MASKS = 11
    SEED = 12
    DRAW = 13
    RESULTS_READ = 14
    OWN_LOADER = 15
    AGREE = 16


TYPES = (np.float32, np.int32, np.uint8, np.float64)  # ASSAY_F32, ...


class Tensor(ctypes.Structure):
    """assay_tensor."""

    _fields_ = (
        ("name", c_char_p),
        ("type", c_int64),
        ("rank", c_int64),
        ("shape", c_int64 * 8),
        ("data", c_void_p),
    )

    def array(self) -> np.ndarray:
        """Return a view, which has other numbers after the action."""
        shape, kind = tuple(self.shape[: self.rank]), np.dtype(TYPES[self.type])
        memory = (ctypes.c_uint8 * (math.prod(shape) * kind.itemsize)).from_address(self.data)
        return np.ctypeslib.as_array(memory).view(kind).reshape(shape)


class Action(ctypes.Structure):
    """assay_exam_action."""

    _fields_ = (
        ("kind", c_int32),
        ("slot", c_int64),
        ("step", c_int64),
        ("value", c_int64),
        ("learning_rate", c_double),
        ("count", c_int64),
        ("tensors", POINTER(Tensor)),
    )

    def arrays(self) -> list[np.ndarray]:
        return [self.tensors[i].array() for i in range(self.count)]

    def copies(self) -> Tensors:
        """Return the tensors by name: an adapter may keep these."""
        return {self.tensors[i].name.decode(): self.tensors[i].array().copy() for i in range(self.count)}


SIGNATURES: Signatures = {
    "assay_exam_open": (c_void_p, [c_char_p, c_int64, ctypes.c_int]),
    "assay_exam_slots_in_turn": (ctypes.c_int, [c_void_p, c_int64]),
    "assay_exam_next": (ctypes.c_int, [c_void_p, POINTER(Action)]),
    "assay_exam_give": (ctypes.c_int, [c_void_p, POINTER(Tensor)]),
    "assay_exam_answer": (ctypes.c_int, [c_void_p, c_int64]),
    "assay_exam_close": (ctypes.c_int, [c_void_p]),
}


class Exam:
    """An open exam of a cell folder. A failure is a RuntimeError with the library's message."""

    def __init__(self, cell_folder: Path, last_step: int | None, own_loader: bool = False) -> None:
        """last_step: of the run, which left the state and batches in the slots; None if nothing ran.

        own_loader: whether the framework's own loader gave the batches of the run.
        """
        self._lib = load_library(library_path(), SIGNATURES)
        self._action = Action()
        step = -1 if last_step is None else last_step
        self._handle = self._lib.assay_exam_open(os.fsencode(cell_folder), step, own_loader)
        if not self._handle:
            raise RuntimeError(last_error(self._lib))

    def _must(self, result: int) -> int:
        if result < 0:
            raise RuntimeError(last_error(self._lib))
        return result

    def take_in_turn(self, slots: int) -> None:
        """Continue the run on so many slots in turn: see assay_exam_slots_in_turn()."""
        self._must(self._lib.assay_exam_slots_in_turn(self._handle, slots))

    def next(self) -> Action | None:
        """Return the next action, which is valid until the next call; None after the last."""
        found = self._must(self._lib.assay_exam_next(self._handle, byref(self._action)))
        return self._action if found else None

    def give(self, tensors: Tensors) -> None:
        for name, tensor in tensors.items():
            array = np.asarray(tensor, order="C")
            if array.dtype not in TYPES:
                array = array.astype(np.float32)
            shape = (c_int64 * 8)(*array.shape)
            kind = TYPES.index(array.dtype.type)
            given = Tensor(name.encode(), kind, array.ndim, shape, array.ctypes.data)
            self._must(self._lib.assay_exam_give(self._handle, byref(given)))

    def answer(self, value: int) -> None:
        self._must(self._lib.assay_exam_answer(self._handle, value))

    def close(self) -> None:
        """Write results/verify.safetensors, if all actions are done."""
        handle, self._handle = self._handle, None
        if handle:
            self._must(self._lib.assay_exam_close(handle))


class Candidate:
    """Does what the actions say with an adapter."""

    def __init__(
        self,
        adapter: Adapter,
        program: Program,
        cell_folder: Path,
        agree: Callable[[int], int] | None = None,
        read: Tensors | None = None,
        in_turn: int = 0,
        seed: int = 0,
    ) -> None:
        """agree: Adapter.agree of several ranks. read: the results of the run that were asked for last.

        in_turn: the number of slots, if steps that follow each other are one call of block(); else 0.
        seed: Cell.seed, which is another one in each rank.
        """
        network, trained = cast(NetworkAdapter, adapter), cast(TrainingAdapter, adapter)
        self._adapter, self._program, self._folder = adapter, program, cell_folder
        self._in_turn, self._first_slot, self._seed = in_turn, 0, seed
        self._rows: list[tuple[float, int]] = []  # of a block that is not begun: rates and numbers
        self._does: dict[Act, Callable[[Action], None]] = {
            Act.STAGE: lambda a: adapter.stage(a.slot, *a.arrays()),
            Act.SET_STATE: lambda a: adapter.set_state(a.copies()),
            Act.STEP: lambda a: adapter.step(a.slot, a.learning_rate, a.step),
            Act.PREFILL: lambda a: network.prefill(a.slot),
            Act.NEXT_TOKEN: lambda a: network.next_token(a.slot),
            Act.SYNCHRONIZE: lambda a: adapter.synchronize(),
            Act.MASKS: lambda a: adapter.supply_masks(a.copies()),
        }
        self._gives: dict[Act, Callable[[Action], Tensors]] = {
            Act.RESULTS: lambda a: adapter.results(),
            Act.STATE: lambda a: trained.state(),  # of a single op its running statistics
            Act.LOSS: lambda a: {"loss": np.array(trained.loss())},
            Act.EVALUATE: lambda a: {"logits": trained.evaluate(a.arrays()[0])},
            Act.DRAW: lambda a: adapter.draw_masks(a.slot),
            Act.RESULTS_READ: lambda a: read or {},
            Act.OWN_LOADER: lambda a: self._own_loader(trained),
        }
        self._answers: dict[Act, Callable[[Action], int]] = {
            Act.SEED: lambda a: self._seeded(a.value),
            Act.AGREE: lambda a: agree(a.value) if agree else int(a.value),
        }

    def perform(self, action: Action, exam: Exam) -> None:
        act = Act(action.kind)
        if self._in_turn and act == Act.STEP:
            return self._add_to_block(action)
        self.end_block()
        if act in self._does:
            self._does[act](action)
        elif act in self._gives:
            exam.give(self._gives[act](action))
        else:
            exam.answer(self._answers[act](action))

    def _add_to_block(self, action: Action) -> None:
        follows = self._rows and (
            action.slot == (self._first_slot + len(self._rows)) % self._in_turn
            and action.step == self._rows[-1][1] + 1
        )
        if not follows:
            self.end_block()
            self._first_slot = action.slot
        self._rows.append((action.learning_rate, action.step))

    def end_block(self) -> None:
        """Take the steps that were added to a block, in one call."""
        rows, self._rows = self._rows, []
        if rows:
            cast(TrainingAdapter, self._adapter).block(self._first_slot, rows)

    def _seeded(self, seed: int) -> bool:
        try:
            self._adapter.seed_masks((seed + self._seed) % SEEDS)
        except Unsupported:
            return False
        return True

    def _own_loader(self, adapter: TrainingAdapter) -> Tensors:
        found = loader_samples(adapter, self._program, self._folder)
        found |= loader_losses(adapter, self._program, self._folder)
        return found | fit_losses(adapter, self._program, self._folder) if adapter.own_loop else found


def sit(
    adapter: Adapter,
    program: Program,
    last_step: int | None,
    cell_folder: Path,
    agree: Callable[[int], int] | None = None,
    read: Tensors | None = None,
) -> None:
    """Write results/verify.safetensors. Afterwards state and slots are the exam's, and masks are drawn.

    last_step: of the run, see Exam; agree and read: see Candidate.
    """
    request = json.loads((cell_folder / "request.json").read_text())
    cell = Cell(cell_folder, request)
    exam = Exam(cell_folder, last_step, cell.loader == "native")
    takes_blocks = isinstance(adapter, TrainingAdapter) and adapter.takes_blocks
    in_turn = request["loader"]["resident_batches"] if takes_blocks and cell.loader == "resident" else 0
    candidate = Candidate(adapter, program, cell_folder, agree, read, in_turn, cell.seed)
    try:
        if in_turn and last_step is not None:
            exam.take_in_turn(in_turn)
        while action := exam.next():
            candidate.perform(action, exam)
        candidate.end_block()
    finally:
        exam.close()
