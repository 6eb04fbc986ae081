"""The independent loops of scripts/overhead."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from framework import EACH, Framework
from program import PROGRAM
from worker_under_test import ROOT

LOOPS = ROOT / "scripts/overhead"
sys.path.insert(0, str(LOOPS))
import clock  # noqa: E402
from clock import Loop, images_of, measure, reject_losses  # noqa: E402
from networks import NETWORKS  # noqa: E402


class Counting(Loop):
    """Its steps take 1 ms each on a clock of its own, and it learns."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.now = 0.0

    def run(self, steps: int) -> float:
        self.calls.append(steps)
        self.now += 1e-3 * steps
        return 1 / len(self.calls)

    def parameters(self) -> int:
        return 0

    def settings(self) -> dict[str, str]:
        return {}


def on_a_clock_of_its_own(loop: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = {"monotonic": lambda: loop.now, "monotonic_ns": lambda: round(1e9 * loop.now)}
    monkeypatch.setattr(clock, "time", SimpleNamespace(**clocks))


def test_clock_times_blocks_after_a_warm_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = Counting()
    on_a_clock_of_its_own(loop, monkeypatch)
    found = measure(loop, seconds=0.1, block_seconds=0.02, warm_up_steps=3)
    timed = loop.calls[-5:]
    assert timed == [20] * 5  # 0.1 s in blocks of 20 steps of 1 ms
    warm_up = loop.calls[:-5]
    assert warm_up[:2] == [1, 1]
    assert 1 < warm_up[-1] == max(warm_up)  # blocks grow until the drain at their end costs little
    assert sum(warm_up) > 3
    begins, ends, steps = zip(*found["blocks"], strict=True)
    assert [*steps] == timed
    assert [end - begin for begin, end in zip(begins, ends, strict=True)] == pytest.approx([20e6] * 5)
    assert [*begins[1:]] == [*ends[:-1]]
    assert found["step_seconds"] == pytest.approx(1e-3)
    assert found["steps"] == sum(loop.calls)
    assert len(found["losses"]) == 1 + 5
    compiled, warm = capsys.readouterr().out.splitlines()
    assert compiled == "loop: compiled"
    assert float(warm.removeprefix("loop: warm ")) == pytest.approx(1e-3)


def test_clock_ends_after_the_block_in_which_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asking(Counting):
        def run(self, steps: int) -> float:
            if len(self.calls) == 100:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().run(steps)

    loop = Asking()
    on_a_clock_of_its_own(loop, monkeypatch)
    found = measure(loop, seconds=600, block_seconds=0.01, warm_up_steps=3)
    assert len(loop.calls) == 101
    assert len(found["blocks"]) >= 1


def test_loss_must_be_finite_and_fall() -> None:
    reject_losses([2.3, 2.2, 1.9, 3.4], 20, NETWORKS["mlp"], "train")
    reject_losses([2.3, 2.4], 20, NETWORKS["mlp"], "infer")
    reject_losses([2.3, 2.4], 19, NETWORKS["mlp"], "train")
    reject_losses([6.9, 6.95], 1000, NETWORKS["resnet50"], "train")
    with pytest.raises(ArithmeticError, match="fall"):
        reject_losses([2.3, 2.2, 2.3, 2.4], 20, NETWORKS["mlp"], "train")
    with pytest.raises(ArithmeticError, match="finite"):
        reject_losses([2.3, math.nan], 2, NETWORKS["resnet50"], "train")


@pytest.mark.parametrize("name", ["lenet5", "lstm", "minilm", "nanogpt"])
def test_made_inputs_are_of_their_network(name: str) -> None:
    network = NETWORKS[name]
    inputs, labels = images_of(network, 64, np.random.default_rng(1))
    assert inputs.shape == (64, *network.shape)
    assert inputs.dtype == (np.int32 if network.vocabulary else np.float32)
    assert set(labels.ravel().tolist()) == set(range(network.classes))
    if network.padded:
        assert len({(text != 0).sum() for text in inputs}) > 10, "texts of many lengths"
        assert all((text[np.argmin(text) :] == 0).all() for text in inputs if (text == 0).any())
    if network.next_token:
        np.testing.assert_array_equal(inputs[:, 1:], labels[:, :-1])
    if network.vocabulary:
        assert 0 <= inputs.min() <= inputs.max() < network.vocabulary


def test_loops_share_nothing_with_the_adapters() -> None:
    for file in LOOPS.glob("*.py"):
        nodes = [*ast.walk(ast.parse(file.read_text()))]
        imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        own = {
            name for name in imported if name.startswith("assay") or (ROOT / f"scripts/{name}.py").exists()
        }
        assert own == set(), file
        backends = {path.stem for path in (ROOT / "backends").rglob("*.py")}
        assert imported & backends == set(), file


def networks_of_assay() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [str(PROGRAM), "list", "workloads", "--json"], capture_output=True, text=True, check=True
    )
    return {one["name"]: one for one in json.loads(done.stdout) if not one["name"].startswith("op/")}


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize("framework", EACH)
def test_loops_have_the_networks_of_assay(framework: Framework) -> None:
    done = subprocess.run(
        [str(framework.python), str(LOOPS / f"{framework.name}_loop.py"), "--count"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()[-1].removeprefix("loop: ")
    listed = networks_of_assay()
    assert json.loads(told) == {name: listed[name]["parameters"] for name in NETWORKS}


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_networks_are_trained_as_in_assay() -> None:
    listed = networks_of_assay()
    # Networks with a loop, in other sizes or with other constants: that loop says what an adapter costs.
    variants = {"resnet50_keras", "googlenet_bn", "bert-base", "gpt2-small"}
    assert set(NETWORKS) | variants == set(listed)
    for name, network in NETWORKS.items():
        one = listed[name]
        expected = (one["batch"], one["sample_shape"], one["classes"], one["optimizer"], one["learning_rate"])
        rate = network.learning_rate
        assert (network.batch, [*network.shape], network.classes, network.optimizer, rate) == expected, name
