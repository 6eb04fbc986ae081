"""A backend that only infers, on a network of several inputs and outputs."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from assay_worker import Cell, InferenceAdapter, Info
from assay_worker.program import Program

Tensors = dict[str, np.ndarray]

VALUES = [
    {"name": "real", "dtype": "f32", "shape": [4, 2], "role": "input", "initializer": "signal"},
    {"name": "text", "dtype": "i32", "shape": [4, 3], "role": "input", "initializer": "below:7"},
]
GRAPH: dict[str, Any] = {
    "name": "two",
    "values": VALUES,
    "nodes": [],
    "outputs": {"doubled": "real", "text": "text"},
    "updates": {},
}
PROGRAM = Program.from_json({"kind": "network", "inference": GRAPH})
REAL = np.array([[0.5, 1.25], [-1.5, 3], [0, 0.1], [9.9, 7]], np.float32)
TEXT = np.array([[6, 1, 0], [2, 2, 5], [3, 4, 1], [0, 6, 6]], np.int32)
PACKED = np.concatenate([REAL, TEXT], axis=1, dtype=np.float32, casting="unsafe")
NONE = np.zeros(0)


class Doubling(InferenceAdapter):
    """Returns twice the numbers, and the tokens as they are."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        return Info("doubling", "1")

    def set_state(self, tensors: Tensors) -> None:
        pass

    def infer(self, inputs: Tensors) -> Tensors:
        return {"doubled": 2 * inputs["real"], "text": inputs["text"]}


def test_a_staged_batch_is_taken_apart_by_the_names_of_the_inputs() -> None:
    adapter = Doubling(PROGRAM, cast(Cell, None))
    fed = PACKED.copy()
    adapter.stage(1, fed, NONE)
    adapter.stage(0, np.zeros_like(fed), NONE)
    fed[:] = -1
    adapter.step(1, 0, 1)
    results = adapter.results()
    assert np.array_equal(results["doubled"], 2 * REAL)
    assert np.array_equal(results["text"], TEXT)
    assert results["text"].dtype == np.int32
