"""The first steps of a run, computed again: once if the losses are those of the run, else twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from assay_worker.exam import _replay
from assay_worker.tensors import write_tensors

REPORTED = [{"loss": 1.5, "share": 0.001}, {"loss": 1.25, "share": 0.001}]


class Adapter:
    """Its loss after the first, second and third step is 2, 1.5 and 1.25."""

    def __init__(self) -> None:
        self.begins = self.steps = 0

    def stage(self, slot: int, inputs: Any, labels: Any) -> None:
        pass

    def set_state(self, state: Any) -> None:
        self.begins += 1
        self.steps = 0

    def step(self, slot: int, rate: float, number: int) -> None:
        self.steps += 1

    def synchronize(self) -> None:
        pass

    def loss(self) -> float:
        return {1: 2.0, 2: 1.5, 3: 1.25}[self.steps]


def session(_: Path) -> Any:
    return SimpleNamespace(
        layout=SimpleNamespace(resident_batches=1),
        inputs=None,
        labels=None,
        schedule=[(0.1, step) for step in (1, 2, 3)],
        read_resident=lambda slot: None,
        close=lambda: None,
    )


@pytest.mark.parametrize(
    ("reported", "times"),
    [
        (REPORTED, 1),
        ([REPORTED[0], {"loss": 1.26, "share": 0.001}], 2),
        ([REPORTED[0], {"loss": 1.26, "share": 0.1}], 1),
        ([], 2),
    ],
)
def test_is_repeated_only_if_a_loss_is_not_that_of_the_run(
    tmp_path: Path, reported: list[dict[str, float]], times: int
) -> None:
    write_tensors(tmp_path / "parameters.safetensors", {"w": np.zeros(1, np.float32)})
    adapter: Any = Adapter()
    answers = _replay(adapter, {"steps": [1, 2, 3], "reported": reported}, tmp_path, session)
    assert answers["replay/losses"].tolist() == [[2.0, 1.5, 1.25]] * times
    assert adapter.begins == times
