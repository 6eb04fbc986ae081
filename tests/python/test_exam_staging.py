"""The exam's batches come from memory that is used again, and inference gets no masks: on plain numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker import Cell, TrainingAdapter, Unsupported
from assay_worker.exam import sit
from assay_worker.exam_staging import ALIGNMENT, Staged, StagingBuffer
from assay_worker.program import read_program
from assay_worker.tensors import Tensors, read_tensors
from mistakes import MUTANTS
from worker_under_test import numpy_adapter

VIEWS = ["KeepsAViewOfItsBatches", "KeepsAViewOfItsLabels", "KeepsAViewOfItsSamples"]


class Kept:
    """What an adapter was given, without a copy."""

    def __init__(self) -> None:
        self.slots: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.staged: list[int] = []
        self.copies: list[np.ndarray] = []

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self.slots[slot] = inputs, labels
        self.copies.append(inputs.copy())
        self.staged.append(slot)


def test_a_buffer_has_other_numbers_when_a_batch_is_staged() -> None:
    adapter: Any = Kept()
    buffer = StagingBuffer(adapter)
    buffer.stage(0, np.ones((4, 3), np.float32), np.array([0, 1, 2, 1], np.int32))
    assert adapter.slots[0][0].ctypes.data % ALIGNMENT == 0, "aligned memory is what frameworks keep"
    assert np.isnan(adapter.slots[0][0]).all()
    assert adapter.slots[0][1].tolist() == [2, 2, 2, 2], "a label that exists"
    np.testing.assert_array_equal(adapter.copies[0], 1)
    buffer.stage(1, np.full((4, 3), 7, np.int32), np.zeros(4, np.int32))
    np.testing.assert_array_equal(adapter.copies[1], 7)


def test_all_batches_of_an_exam_come_from_one_buffer() -> None:
    adapter: Any = Kept()
    staged = Staged(adapter, [1, 0], lambda i: (np.full((2, 3), i, np.float32), np.zeros(2, np.int32)))
    staged.stage_all()
    assert staged.slot_of(1) == 0
    assert adapter.staged == [1, 0], "each is staged once"
    assert adapter.slots[0][0] is adapter.slots[1][0]
    np.testing.assert_array_equal(adapter.copies[1], 1)


def examined(folder: Path, task: str, *mistakes: type) -> Tensors:
    kind: Any = type("Adapter", (*mistakes, numpy_adapter()), {})
    program = read_program(folder / "graph.json")
    adapter: TrainingAdapter = kind(program, Cell(folder, json.loads((folder / "request.json").read_text())))
    adapter.set_state(read_tensors(folder / "parameters.safetensors"))
    sit(adapter, program, task, None, folder)
    return read_tensors(folder / "results/verify.safetensors")


@pytest.mark.parametrize("mistake", VIEWS)
def test_a_view_of_the_buffer_shows(make_cell: Any, mistake: str) -> None:
    folder = make_cell("mlp")
    right = examined(folder, "train")
    assert all(np.isfinite(tensor).all() for tensor in right.values())
    wrong = examined(folder, "train", MUTANTS[mistake])
    assert not np.allclose(wrong["first/loss"], right["first/loss"], rtol=1e-3)


def test_inference_gets_no_masks(make_cell: Any) -> None:
    class InfersOnly:
        def supply_masks(self, masks: Tensors) -> None:
            raise Unsupported("[dropout] this adapter takes no masks")

    folder = make_cell("dropping", task="infer")
    assert (folder / "check/masks.safetensors").exists()
    assert "logits" in examined(folder, "infer", InfersOnly)
    with pytest.raises(Unsupported):
        examined(folder, "train", InfersOnly)
