"""The exam of dropout: a program that draws its masks, and the one that takes them, on plain numpy."""

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
from framework import assert_computes_with_what_it_drew
from mistakes import MUTANTS
from worker_under_test import numpy_adapter


def examined(folder: Path, *mistakes: type) -> Tensors:
    """Let the numpy adapter with these classes in front of it sit the exam; what it drew."""
    kind: Any = type("Adapter", (*mistakes, numpy_adapter()), {})
    program = read_program(folder / "graph.json")
    adapter: TrainingAdapter = kind(program, Cell(folder, json.loads((folder / "request.json").read_text())))
    sit(adapter, program, None, folder)
    return read_tensors(folder / "results/verify.safetensors")


class ReadsLargerInputs:
    """Inputs are a hundredth too large where the step draws."""

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        factor = np.float32(1 if self._supplied else 1.01)  # type: ignore[attr-defined]
        found: Tensors = super().gradients(inputs * factor, labels)  # type: ignore[misc]
        return found


class TakesOtherMasksBackwards:
    """The loss is that of one mask, the gradients are those of another."""

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        found: Tensors = super().gradients(inputs, labels)  # type: ignore[misc]
        if not self._supplied:  # type: ignore[attr-defined]
            held, self._random = self._random, np.random.default_rng(99)  # type: ignore[has-type]
            other: Tensors = super().gradients(inputs, labels)  # type: ignore[misc]
            found, self._random = other | {"loss": found["loss"]}, held
        return found


class CannotBegin:
    def seed_masks(self, seed: int) -> None:
        raise Unsupported("[dropout] not here")


def apart_in_loss(answers: Tensors) -> np.ndarray:
    losses = answers["timed/loss"]
    return np.abs(losses[:, 0] / losses[:, 1] - 1)


def test_a_right_program_computes_with_what_it_drew(make_cell: Any) -> None:
    folder = make_cell("dropping")
    answers = examined(folder)
    assert_computes_with_what_it_drew(answers, folder)
    assert answers["timed/drawn/fc1.weight.v"].shape == (2, *answers["first/moment/fc1.weight.v"].shape)


def test_of_a_large_state_some_elements_are_handed_over(make_cell: Any) -> None:
    folder = make_cell("dropping")
    (folder / "check/excerpt.json").write_text(json.dumps({"elements": 5, "at": 1}))
    answers = examined(folder)
    for program in ("drawn", "taken"):
        assert answers[f"timed/{program}/fc1.weight"].shape == (2, 5)
    assert answers["timed/drawn/fc2.bias"].shape[1] <= 5


@pytest.mark.parametrize(
    "mistake", [MUTANTS["KeepsEveryElement"], MUTANTS["DrawsOneMask"], ReadsLargerInputs]
)
def test_a_mistake_where_it_draws_shows_in_every_loss(make_cell: Any, mistake: type) -> None:
    assert (apart_in_loss(examined(make_cell("dropping"), mistake)) > 1e-3).all()


def test_other_masks_backwards_show_in_the_gradients(make_cell: Any) -> None:
    folder = make_cell("dropping")
    answers = examined(folder, TakesOtherMasksBackwards)
    assert (apart_in_loss(answers) < 1e-5).all()
    start = read_tensors(folder / "check/state.safetensors")["fc1.weight.m"]
    for drawn, taken in zip(
        answers["timed/drawn/fc1.weight.m"], answers["timed/taken/fc1.weight.m"], strict=True
    ):
        assert np.linalg.norm(drawn - taken) > 0.1 * np.linalg.norm(taken - start)


def test_a_program_whose_generator_cannot_begin_again_shows_its_masks_only(make_cell: Any) -> None:
    answers = examined(make_cell("dropping"), CannotBegin)
    assert not [name for name in answers if name.startswith("timed/")]
    masks = answers["draws/drop1.mask"]
    assert masks.dtype == np.uint8
    assert len(masks) == 2
