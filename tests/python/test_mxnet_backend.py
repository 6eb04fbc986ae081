"""Tests of the mxnet worker only."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from framework import BY_NAME, ask_numpy, assert_computes_with_changed_weights, assert_same
from program import PROGRAM, assay
from worker_under_test import ROOT

MXNET = BY_NAME["mxnet"]
pytestmark = MXNET.skip


COPY_LARGE_ARRAYS = """
import os, sys, time
sys.path[:0] = sys.argv[1:]
from worker import restore_aliases
restore_aliases()
import numpy as np
from mxnet import nd
from mxnet_arrays import to_mxnet, to_numpy

def threads():
    time.sleep(0.3)  # those of a pool end a moment after it
    return len(os.listdir("/proc/self/task"))

numbers = np.arange(300_000, dtype=np.float32)
nd.zeros(1).wait_to_read()  # MXNet's own threads start
counts = [threads()]
assert (to_numpy(to_mxnet(numbers)) == numbers).all()
counts.append(threads())
nd.array(numbers)
counts.append(threads())
print(*counts)
"""


def test_large_arrays_leave_no_second_pool_of_threads() -> None:
    folders = [ROOT / "backends/mxnet", ROOT / "backends/python"]
    command = [MXNET.python, "-c", COPY_LARGE_ARRAYS, *folders]
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, after, of_mxnet = (int(count) for count in done.stdout.split())
    assert after == before
    assert of_mxnet == before + 1  # the pool that a copy in the main thread would start


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_a_copy_of_the_state_has_the_same_bits(tmp_path: Path) -> None:
    """MXNet keeps Adam's moments with a factor near 1, which a copy must not round away."""
    report = tmp_path / "report.json"
    assay(
        *("run", "--workload", "lenet5", "--dataset", "synthetic", "--backend", "mxnet", "--mode", "eager"),
        *("--batch", 8, "--threads", 1, "--steps", 20, "--warm-up-steps", 1, "--warm-up-seconds", 0),
        *("--forks", 1, "--spare-rounds", 0, "--roofline", "false", "--out", report),
    )
    tensors = json.loads(report.read_text())["cells"][0]["equivalence"]["tensors"]
    errors = dict(zip(tensors["name"], map(float, tensors["max_error"]), strict=True))
    # Of the worker's own runs; "continuation/step/" is compared with another backend.
    own = [name for name in errors if re.fullmatch(r"continuation/(?!step/).*\.v", name)]
    assert own
    assert [name for name in own if errors[name] != 0] == []


def test_fused_weights_are_those_that_were_set_last(make_cell: Any) -> None:
    assert_computes_with_changed_weights(MXNET, make_cell("normalised", mode="mkldnn", task="infer"))


def test_plain_hybridize_takes_the_steps_of_numpy(make_cell: Any) -> None:
    folder = make_cell("convolutional", mode="hybridize-plain")
    assert_same(MXNET.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


@pytest.mark.parametrize(
    "optimizer",
    [{"kind": "adam", "epsilon": 1e-3}, {"kind": "sgd", "momentum": 0.9}, {"kind": "rmsprop"}],
    ids=["adam", "sgd", "rmsprop"],
)
def test_halves_on_two_contexts_are_one_batch(make_cell: Any, optimizer: dict[str, Any]) -> None:
    folder = make_cell("convolutional", optimizer, mode="two-contexts")
    assert_same(MXNET.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


@pytest.mark.parametrize(
    ("network", "optimizer", "reason"),
    [
        ("mlp", {"kind": "adam", "clip_norm": 1.0}, "no norm of half a gradient"),
    ],
)
def test_two_contexts_refuse_what_a_half_cannot_do(
    make_cell: Any, network: str, optimizer: dict[str, Any], reason: str
) -> None:
    heard = MXNET.hear(make_cell(network, optimizer, mode="two-contexts"), "compile", "quit")
    assert heard[1]["kind"] == "unsupported"
    assert reason in heard[1]["reason"]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_two_contexts_share_the_threads_or_choose_their_number(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    modes = "two-contexts,two-contexts-own-threads"
    assay(
        *("run", "--workload", "mlp", "--dataset", "synthetic", "--backend", "mxnet", "--mode", modes),
        *("--batch", 8, "--threads", 4, "--steps", 2, "--warm-up-steps", 1, "--warm-up-seconds", 0),
        *("--forks", 1, "--spare-rounds", 0, "--roofline", "false", "--check=false", "--out", report),
    )
    settings = [cell["forks"][0]["settings"] for cell in json.loads(report.read_text())["cells"]]
    shared, own = (one["threads"] for one in settings)
    processors = min(4, len(os.sched_getaffinity(0)))
    assert (shared, own) == ("2", str(max(1, processors // 2)))
    assert "OMP_NUM_THREADS" not in settings[1]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_halves_count_the_running_accuracy_of_their_batch(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assay(
        *("run", "--workload", "mlp", "--dataset", "synthetic", "--samples", 80, "--batch", 8, "--epochs", 2),
        *(
            "--backend",
            "mxnet",
            "--mode",
            "eager,hybridize,two-contexts",
            "--running-accuracy",
            "--threads",
            2,
        ),
        *("--forks", 1, "--spare-rounds", 0, "--roofline", "false", "--check=false", "--out", report),
    )
    cells = json.loads(report.read_text())["cells"]
    found = [cell["forks"][0]["blocks"]["accuracy"] for cell in cells]
    assert found[0] == found[1] == found[2]
    assert cells[0]["metrics"]["first_epoch_running_accuracy"]["value"] == found[0][0]
    assert [round(80 * share, 4) % 1 for share in found[0]] == [0, 0], "shares of the ten batches of an epoch"
