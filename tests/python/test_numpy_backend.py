"""The gradients of the plain numpy backend against finite differences, its updates against the formulas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker import Cell, Unsupported
from assay_worker.program import read_program
from assay_worker.tensors import read_tensors
from worker_under_test import exam_batch, numpy_adapter


@pytest.mark.parametrize("network", ["mlp", "convolutional"])
def test_gradients_agree_with_central_differences(make_cell: Any, network: str) -> None:
    folder: Path = make_cell(network)
    given = read_tensors(folder / "check/state.safetensors")
    program = read_program(folder / "graph.json")
    adapter = numpy_adapter()(program, Cell(folder, json.loads((folder / "request.json").read_text())))
    state = {name: tensor.astype(np.float64) for name, tensor in given.items()}
    rows, labels = exam_batch(folder, 0)
    inputs = rows.astype(np.float64)

    def loss_at(name: str, index: tuple[int, ...], by: float) -> float:
        moved = {key: tensor.copy() for key, tensor in state.items()}
        moved[name][index] += by
        adapter.set_state(moved)
        return float(adapter.gradients(inputs, labels)["loss"])

    adapter.set_state(state)
    found = adapter.gradients(inputs, labels)
    random = np.random.default_rng(3)
    for name in [value.name for value in program.parameters]:
        tensor = state[name]
        for _ in range(6):
            index = tuple(random.integers(0, size) for size in tensor.shape)
            slope = (loss_at(name, index, 1e-6) - loss_at(name, index, -1e-6)) / 2e-6
            assert found[f"gradient/{name}"][index] == pytest.approx(slope, rel=1e-5, abs=1e-8), (name, index)


def test_an_op_that_numpy_does_not_have_is_unsupported(make_cell: Any) -> None:
    folder = make_cell("normalised")
    with pytest.raises(Unsupported, match="batch_norm"):
        numpy_adapter()(read_program(folder / "graph.json"), Cell(folder, {"mode": "eager"}))


@pytest.mark.parametrize("kind", ["adam", "sgd", "rmsprop"])
def test_training_lowers_the_loss(make_cell: Any, kind: str) -> None:
    folder = make_cell("mlp", {"kind": kind})
    adapter = numpy_adapter()(read_program(folder / "graph.json"), Cell(folder, {"mode": "eager"}))
    adapter.set_state(read_tensors(folder / "parameters.safetensors"))
    adapter.stage(0, *exam_batch(folder, 0))
    adapter.step(0, 1e-2, 1)
    first = adapter.loss()
    for step in range(2, 40):
        adapter.step(0, 1e-2, step)
    assert adapter.loss() < 0.7 * first
