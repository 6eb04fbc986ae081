"""What the torch worker alone has to tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from framework import FRAMEWORKS, ask_numpy, assert_same

TORCH = FRAMEWORKS[0]
pytestmark = TORCH.skip


def test_hello_tells_onednn_and_the_threads(make_cell: Any) -> None:
    hello = TORCH.hear(make_cell("mlp", threads=2), "quit")[0]
    libraries = {library["name"]: library for library in hello["libraries"]}
    assert libraries["oneDNN"]["version"]
    assert hello["settings"]["threads"] == "2"


@pytest.mark.parametrize("mode", ["eager", "compile"])
def test_dropout_takes_the_masks_of_the_check_and_then_draws_its_own(make_cell: Any, mode: str) -> None:
    folder = make_cell("dropping", {"kind": "adam", "epsilon": 1e-3}, mode=mode)
    check, verify, _ = TORCH.ask(folder)
    expected_check, expected_verify = ask_numpy(folder)
    drawn, expected_drawn = (
        {name: answers.pop(name) for name in list(answers) if name.startswith("draws/")}
        for answers in (verify, expected_verify)
    )
    # Logits go up to 60 here.
    assert_same(check, expected_check, 1e-3, 1e-3)
    assert_same(verify, expected_verify, 1e-3, 1e-3)
    # The masks of the check keep a half; what is drawn goes by the rate.
    for counts in (drawn, expected_drawn):
        for name, kept in (("drop1", 0.75), ("drop2", 0.5)):
            first, second, alike, elements = counts[f"draws/{name}.mask"]
            deviation = 6 * np.sqrt(0.25 * elements)
            assert elements > 200
            assert abs(first - kept * elements) < deviation
            assert abs(second - kept * elements) < deviation
            assert abs(alike - (kept**2 + (1 - kept) ** 2) * elements) < deviation
