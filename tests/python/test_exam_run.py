"""What a worker answers about its run, before anything is set."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from assay_worker.exam import _run


class Adapter:
    """Slot s has the logits s, and those of its token t are s + t / 10. An op has a result and a gradient."""

    def __init__(self, op: bool = False) -> None:
        self.op, self.slot, self.tokens = op, 3, 0.0

    def step(self, slot: int, rate: float, number: int) -> None:
        self.slot = slot

    def prefill(self, slot: int) -> None:
        self.slot, self.tokens = slot, 0.0

    def next_token(self, slot: int) -> None:
        self.tokens += 0.1

    def synchronize(self) -> None:
        pass

    def results(self) -> dict[str, np.ndarray]:
        if self.op:
            return {"out": np.float32([self.slot]), "gradient/in": np.float32([-self.slot])}
        return {"logits": np.float32([[[self.slot + self.tokens]]])}


def answers(
    adapter: Adapter, task: str, slots: list[int], read: dict[str, np.ndarray] | None = None
) -> dict[str, Any]:
    program: Any = SimpleNamespace(is_op=adapter.op, generated=2)
    found = _run(adapter, program, task, slots, read or {})  # type: ignore[arg-type]
    return {name: tensor.ravel().tolist() for name, tensor in found.items()}


def test_the_results_of_the_last_step_are_read_before_any_other_step() -> None:
    assert answers(Adapter(), "infer", [5, 1]) == {"run/last/logits": [3.0], "run/logits": [5.0, 1.0]}


def test_without_resident_batches_only_the_last_step_is_asked() -> None:
    assert answers(Adapter(), "infer", []) == {"run/last/logits": [3.0]}


def test_what_was_read_of_the_run_is_handed_over() -> None:
    assert answers(Adapter(), "infer", [], {"logits": np.float32([7])})["run/read/logits"] == [7.0]
    assert answers(Adapter(op=True), "train", [], {"out": np.float32([7])})["run/read/result/out"] == [7.0]


def test_an_op_has_its_results_and_gradients() -> None:
    assert answers(Adapter(op=True), "train", [2]) == {
        "run/last/result/out": [3.0],
        "run/last/gradient/in": [-3.0],
        "run/result/out": [2.0],
        "run/gradient/in": [-2.0],
    }


def test_a_generation_has_every_token() -> None:
    found = answers(Adapter(), "decode", [4])
    assert found["run/logits"] == pytest.approx([4.0, 4.1, 4.2])
