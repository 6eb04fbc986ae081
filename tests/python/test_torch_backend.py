"""Tests of the torch worker only."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from framework import BY_NAME, ask_numpy, assert_computes_with_changed_weights, assert_same

TORCH = BY_NAME["torch"]
pytestmark = TORCH.skip


def test_hello_tells_onednn_and_the_threads(make_cell: Any) -> None:
    hello = TORCH.hear(make_cell("mlp", threads=2), "quit", fresh=True)[0]
    libraries = {library["name"]: library for library in hello["libraries"]}
    assert libraries["oneDNN"]["version"]
    assert hello["settings"]["threads"] == "2"


@pytest.mark.parametrize("task", ["train", "infer"])
def test_max_autotune_computes_what_numpy_does(make_cell: Any, task: str) -> None:
    folder = make_cell("mlp", mode="compile-max-autotune", task=task)
    assert_same(TORCH.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


@pytest.mark.parametrize(
    ("axes", "setting"),
    [
        ({"device": "cuda", "deterministic": True}, ":4096:8"),
        ({"device": "cuda", "deterministic": False}, None),
        ({"device": "cpu", "deterministic": True}, None),
    ],
)
def test_deterministic_cells_on_a_gpu_configure_cublas(
    make_cell: Any, axes: dict[str, Any], setting: str | None
) -> None:
    hello = TORCH.hear(make_cell("mlp", **axes), "quit")[0]
    assert hello["settings"].get("CUBLAS_WORKSPACE_CONFIG") == setting


def test_frozen_weights_are_those_that_were_set_last(make_cell: Any) -> None:
    folder = make_cell("normalised", mode="freeze", task="infer")
    heard = assert_computes_with_changed_weights(TORCH, folder)
    assert heard[1]["settings"]["freezing"] == "True"


def test_a_package_is_compiled_again_only_for_other_weights(make_cell: Any) -> None:
    folder = make_cell("normalised", mode="aot", task="infer")
    assert_computes_with_changed_weights(TORCH, folder)
    assert (folder / "network.pt2").exists()


@pytest.fixture(scope="module")
def stubbed() -> dict[str, Any]:
    script = Path(__file__).parent / "torch_stubs.py"
    command = [str(TORCH.python), str(script), str(TORCH.worker.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_layout_and_search_on_a_gpu_are_those_of_users(stubbed: dict[str, Any]) -> None:
    for cell in stubbed["settings"]:
        with_tensor_cores = cell["device"] == "cuda" and cell["precision"] != "fp32"
        expected = {"native": with_tensor_cores, "channels_last": True, "channels_first": False}
        assert cell["last"] == expected[cell["layout"]], cell
        assert cell["searches"] == (cell["precision"] != "fp32" or cell["mode"] == "cudnn-benchmark"), cell


def test_modes_that_compile_are_options_of_torch_compile(stubbed: dict[str, Any]) -> None:
    modes = {mode: options.get("mode") for mode, options in stubbed["compile"].items()}
    assert modes == {
        "compile": None,
        "compile-max-autotune": "max-autotune",
        "compile-reduce-overhead": "reduce-overhead",
        "freeze": None,
    }
    described = json.loads((TORCH.worker.parent / "backend.json").read_text())
    assert described["compiles"] == [*modes]


def test_a_bare_exchange_has_the_buckets_of_pytorch(stubbed: dict[str, Any]) -> None:
    assert len(stubbed["buckets"]["theirs"]) == 3
    assert stubbed["buckets"]["ours"] == stubbed["buckets"]["theirs"]


def test_a_capture_leaves_other_threads_alone(stubbed: dict[str, Any]) -> None:
    capture = stubbed["capture"]
    assert capture["options"] == {"capture_error_mode": "thread_local"}
    assert capture["warm_up"] == 3
    assert capture["steps"] == ["aside"] * capture["warm_up"] + ["graph"]


def test_the_device_is_timed_behind_a_first_run(stubbed: dict[str, Any]) -> None:
    device = stubbed["device"]
    assert device["options"] == {"capture_error_mode": "thread_local"}
    runs = ["graph.replay", "begin.record", "graph.replay", "end.record", "end.synchronize"]
    assert device["calls"] == ["work", *runs, "begin.elapsed_time"]
    assert device["seconds"] == 0.0125
    assert device["reason"].startswith("[time_device]")
    assert "not permitted" in device["reason"]


def test_a_batch_is_sent_from_pinned_memory_without_a_wait(stubbed: dict[str, Any]) -> None:
    upload = stubbed["upload"]
    assert upload["pinned"] is True
    assert upload["calls"] == ["event.synchronize", "pinned.copy_", "target.copy_", "event.record"]
    assert upload["options"] == [{}, {}, {"non_blocking": True}, {}]
    assert upload["to_the_gpu"]
