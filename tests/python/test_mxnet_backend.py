"""Tests of the mxnet worker only."""

from __future__ import annotations

from typing import Any

import pytest
from framework import FRAMEWORKS, ask_numpy, assert_computes_with_changed_weights, assert_same

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
    assert_computes_with_changed_weights(MXNET, make_cell("normalised", mode="mkldnn", task="infer"))


def test_plain_hybridize_takes_the_steps_of_numpy(make_cell: Any) -> None:
    folder = make_cell("convolutional", mode="hybridize-plain")
    assert_same(MXNET.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


def test_fused_subgraphs_are_not_trained(make_cell: Any) -> None:
    heard = MXNET.hear(make_cell("mlp", mode="mkldnn"), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unsupported"
