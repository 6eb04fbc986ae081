"""The torch worker against the plain numpy one: same folder, same commands, same answers."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.checks import read_feeds
from assay_worker.tensors import Tensors, read_tensors
from ops import OPS
from test_protocol import WORKER, talk
from worker_under_test import ROOT

SHARE = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "assay"
PYTHON = Path(os.environ.get("ASSAY_ENVIRONMENTS") or SHARE / "environments") / "torch/bin/python"
TORCH = ROOT / "backends/torch/worker.py"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="PyTorch is not set up: scripts/setup --framework torch"
)


def ask(
    folder: Path, worker: Path = TORCH, check: bool = True
) -> tuple[Tensors, Tensors, list[dict[str, Any]]]:
    """Let a worker check and verify; what it wrote and what it said."""
    commands = [
        {"command": "compile", "check": check},
        *({"command": c} for c in ("check", "verify", "quit")),
    ]
    heard, _ = talk(folder, commands, worker, sys.executable if worker == WORKER else str(PYTHON))
    assert [event["event"] for event in heard] == ["hello", "compiled", "checked", "verified", "bye"], heard
    results = folder / "results"
    return read_tensors(results / "check.safetensors"), read_tensors(results / "verify.safetensors"), heard


def assert_same(found: Tensors, expected: Tensors, rtol: float, atol: float) -> None:
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        ("convolutional", {"kind": "adam", "epsilon": 1e-3}),
        ("mlp", {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1}),
        ("mlp", {"kind": "sgd", "momentum": 0.0}),
        ("mlp", {"kind": "rmsprop", "epsilon": 1e-2}),
    ],
    ids=["adam", "sgd", "sgd_plain", "rmsprop"],
)
def test_torch_answers_as_numpy_does(make_cell: Any, network: str, optimizer: dict[str, Any]) -> None:
    folder = make_cell(network, optimizer)
    check, verify, _ = ask(folder)
    expected_check, expected_verify, _ = ask(folder, WORKER)
    assert_same(check, expected_check, 2e-5, 2e-6)
    assert_same(verify, expected_verify, 2e-5, 2e-6)


def test_compiled_steps_are_those_of_eager(make_cell: Any) -> None:
    folder = make_cell("convolutional", mode="compile")
    check, verify, heard = ask(folder, check=False)
    assert (
        heard[1]["settings"]["compiled_graphs"] == "1"
    )  # the command compile leaves nothing to the first step
    expected_check, expected_verify, _ = ask(folder, WORKER)
    assert_same(check, expected_check, 2e-5, 2e-6)
    assert_same(verify, expected_verify, 2e-5, 2e-6)


def test_running_statistics_take_the_biased_variance(make_cell: Any) -> None:
    folder = make_cell("normalised")
    check, _, _ = ask(folder)
    feeds = read_feeds(folder)
    given = feeds.parameters
    x, _ = OPS["convolution"](feeds.inputs, given["conv1.weight"], given["conv1.bias"], stride=1, padding=0)
    for name, batch in (("mean", x.mean((0, 2, 3))), ("variance", x.var((0, 2, 3)))):
        expected = 0.9 * given[f"bn1.running_{name}"] + 0.1 * batch
        np.testing.assert_allclose(check[f"running/bn1.running_{name}"], expected, rtol=1e-5)


def test_bf16_is_coarser_than_fp32_and_near_it(make_cell: Any) -> None:
    folder = make_cell("convolutional")
    exact, _, _ = ask(folder)
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"precision": "bf16"}))
    coarse, _, _ = ask(folder)
    error = np.abs(coarse["training/logits"] - exact["training/logits"]).max()
    assert 1e-5 < error < 0.05 * np.abs(exact["training/logits"]).max()


def test_a_device_that_is_not_there_is_unavailable(make_cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_cell("mlp", device="cuda")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    heard, _ = talk(folder, [{"command": "compile"}, {"command": "quit"}], TORCH, str(PYTHON))
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unavailable"


def test_hello_tells_the_libraries_and_the_threads(make_cell: Any) -> None:
    folder = make_cell("mlp", threads=2)
    heard, _ = talk(folder, [{"command": "quit"}], TORCH, str(PYTHON))
    libraries = {library["name"]: library for library in heard[0]["libraries"]}
    assert Path(libraries["PyTorch"]["path"]).exists()
    assert libraries["oneDNN"]["version"]
    assert heard[0]["settings"]["threads"] == "2"
