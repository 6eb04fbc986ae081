"""The exam's batches come from memory that is used again, and inference gets no masks: on plain numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker import Cell, TrainingAdapter, Unsupported
from assay_worker.exam import sit
from assay_worker.program import read_program
from assay_worker.tensors import Tensors, read_tensors
from mistakes import MUTANTS
from worker_under_test import numpy_adapter

VIEWS = ["KeepsAViewOfItsBatches", "KeepsAViewOfItsLabels", "KeepsAViewOfItsSamples"]


def examined(folder: Path, *mistakes: type) -> Tensors:
    kind: Any = type("Adapter", (*mistakes, numpy_adapter()), {})
    program = read_program(folder / "graph.json")
    adapter: TrainingAdapter = kind(program, Cell(folder, json.loads((folder / "request.json").read_text())))
    adapter.set_state(read_tensors(folder / "parameters.safetensors"))
    sit(adapter, program, None, folder)
    return read_tensors(folder / "results/verify.safetensors")


@pytest.mark.parametrize("mistake", VIEWS)
def test_a_view_of_the_buffer_shows(make_cell: Any, mistake: str) -> None:
    folder = make_cell("mlp")
    right = examined(folder)
    assert all(np.isfinite(tensor).all() for tensor in right.values())
    wrong = examined(folder, MUTANTS[mistake])
    assert not np.allclose(wrong["first/loss"], right["first/loss"], rtol=1e-3)


class TakesNoMasks:
    def supply_masks(self, masks: Tensors) -> None:
        raise Unsupported("[dropout] this adapter takes no masks")


def test_inference_gets_no_masks(make_cell: Any) -> None:
    folder = make_cell("dropping", task="infer")
    assert (folder / "check/masks.safetensors").exists()
    assert "logits" in examined(folder, TakesNoMasks)


def test_a_training_that_takes_no_masks_is_refused(make_cell: Any) -> None:
    with pytest.raises(Unsupported):
        examined(make_cell("dropping"), TakesNoMasks)
