"""What the mxnet worker alone has to tell."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import read_tensors, write_tensors
from framework import FRAMEWORKS, assert_same

MXNET = next(framework for framework in FRAMEWORKS if framework.name == "mxnet")
pytestmark = MXNET.skip


def test_large_arrays_start_no_second_pool_of_threads(
    make_cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MXNET_CPU_PARALLEL_SIZE", raising=False)
    settings = MXNET.hear(make_cell("mlp"), "quit")[0]["settings"]
    assert int(settings["MXNET_CPU_PARALLEL_SIZE"]) > 2**29


def test_the_callers_environment_takes_precedence(make_cell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXNET_CPU_PARALLEL_SIZE", "200000")
    settings = MXNET.hear(make_cell("mlp"), "quit")[0]["settings"]
    assert settings["MXNET_CPU_PARALLEL_SIZE"] == "200000"


def test_fused_weights_are_those_that_were_set_last(make_cell: Any) -> None:
    folder = make_cell("normalised", mode="mkldnn", task="infer")
    # The weights of the check are others than those that the first step met.
    given = read_tensors(folder / "check/parameters.safetensors")
    changed = {name: tensor * np.float32(1.25) for name, tensor in given.items()}
    write_tensors(folder / "check/parameters.safetensors", changed)
    check, verify, _ = MXNET.ask(folder, check=False)
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"mode": "eager"}))
    expected_check, expected_verify, _ = MXNET.ask(folder)
    assert_same(check, expected_check, 2e-5, 2e-6)
    assert_same(verify, expected_verify, 2e-5, 2e-6)


def test_fused_subgraphs_are_not_trained(make_cell: Any) -> None:
    heard = MXNET.hear(make_cell("mlp", mode="mkldnn"), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unsupported"
