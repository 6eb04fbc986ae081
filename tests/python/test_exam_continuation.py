"""Steps after the run, with and without pauses, and how far roundings take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from assay_worker.exam import Feeds, _continuation
from assay_worker.tensors import nudged

NONE = np.zeros(0)


class Chaotic:
    """Each step maps every parameter x to 4x(1-x), which doubles an error; the state is shown in fp32."""

    def __init__(self, dtype: type[np.floating[Any]]) -> None:
        self.values = np.random.default_rng(1).random(64).astype(dtype)
        self.starts = 0
        self.steps: list[tuple[int, int]] = []

    def state(self) -> dict[str, np.ndarray]:
        return {"x": self.values.astype(np.float32)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.values = state["x"].astype(self.values.dtype)
        self.starts += 1

    def step(self, slot: int, rate: float, number: int) -> None:
        self.steps.append((slot, number))
        self.values = 4 * self.values * (1 - self.values)

    def synchronize(self) -> None:
        pass

    def loss(self) -> float:
        return float(len(self.steps))


def continued(adapter: Any, steps: int, excerpt: dict[str, float] | None = None) -> dict[str, np.ndarray]:
    asked = {"seconds": 0, "fewest": steps, "most": steps}
    schedule = [[0.1, 1], [0.1, 2]]
    feeds = Feeds({}, NONE, NONE, schedule, {}, {}, 1, NONE, [0, 1], asked, None, excerpt)
    return _continuation(adapter, feeds, asked, 7, int)


def test_the_same_steps_start_from_a_copy_of_the_state() -> None:
    adapter = Chaotic(np.float32)
    answers = continued(adapter, 2)
    assert adapter.steps == [(0, 7), (1, 8), (0, 9), (1, 8), (0, 9)]
    assert adapter.starts == 1, "equal runs need no more runs"
    assert set(answers) == {
        "continuation/steps",
        "continuation/loss",
        *(f"continuation/{run}/x" for run in ("start", "unwaited", "waited")),
    }
    assert answers["continuation/steps"] == 2
    assert answers["continuation/loss"] == 1, "of the step before them"
    assert np.array_equal(answers["continuation/unwaited/x"], answers["continuation/waited/x"])
    assert not np.array_equal(answers["continuation/start/x"], answers["continuation/waited/x"])


def test_where_the_copy_is_rounded_more_runs_show_what_roundings_become() -> None:
    adapter = Chaotic(np.float64)
    answers = continued(adapter, 12)
    assert adapter.starts == 3
    waited = answers["continuation/waited/x"]
    apart = np.linalg.norm(answers["continuation/unwaited/x"] - waited)
    spread = max(np.linalg.norm(answers[f"continuation/near_{run}/x"] - waited) for run in (1, 2))
    assert apart > 1e-4, "of values up to 1"
    assert apart / 6 < spread < apart * 6


def test_the_elements_that_are_requested_are_handed_over() -> None:
    whole = continued(Chaotic(np.float32), 2)
    chosen = continued(Chaotic(np.float32), 2, {"elements": 10, "at": 0.5})
    for run in ("start", "unwaited", "waited"):
        name = f"continuation/{run}/x"
        assert np.array_equal(chosen[name], whole[name][27:37])


@pytest.mark.parametrize("value", [1.0, -1.0, 0.0])
def test_a_nudge_moves_some_values_by_a_rounding_towards_zero(value: float) -> None:
    values = np.full(1000, value, np.float32)
    found = nudged(values, 0.25, np.random.default_rng(1))
    assert found.dtype == np.float32
    assert set(found) <= {np.float32(value), np.nextafter(np.float32(value), np.float32(0))}
    assert (200 < np.count_nonzero(found != values) < 300) == (value != 0)
