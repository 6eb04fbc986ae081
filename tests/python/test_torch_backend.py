"""What the torch worker alone has to tell."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from assay_worker.tensors import read_tensors, write_tensors
from framework import FRAMEWORKS, assert_same

TORCH = FRAMEWORKS[0]
pytestmark = TORCH.skip


def test_hello_tells_onednn_and_the_threads(make_cell: Any) -> None:
    hello = TORCH.hear(make_cell("mlp", threads=2), "quit")[0]
    libraries = {library["name"]: library for library in hello["libraries"]}
    assert libraries["oneDNN"]["version"]
    assert hello["settings"]["threads"] == "2"


def test_a_captured_step_needs_a_gpu(make_cell: Any) -> None:
    heard = TORCH.hear(make_cell("mlp", mode="cudagraph"), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unsupported"
    assert "CUDA device" in heard[1]["reason"]


def test_frozen_weights_are_those_that_were_set_last(make_cell: Any) -> None:
    folder = make_cell("normalised", mode="freeze", task="infer")
    # The weights of the check are others than those that the program was compiled with.
    given = read_tensors(folder / "check/parameters.safetensors")
    changed = {name: tensor * np.float32(1.25) for name, tensor in given.items()}
    write_tensors(folder / "check/parameters.safetensors", changed)
    check, verify, heard = TORCH.ask(folder, check=False)
    assert heard[1]["settings"]["freezing"] == "True"
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"mode": "eager"}))
    expected_check, expected_verify, _ = TORCH.ask(folder)
    assert_same(check, expected_check, 2e-5, 2e-6)
    assert_same(verify, expected_verify, 2e-5, 2e-6)


def test_frozen_weights_are_not_trained(make_cell: Any) -> None:
    heard = TORCH.hear(make_cell("mlp", mode="freeze"), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unsupported"
