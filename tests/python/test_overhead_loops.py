"""The independent loops of scripts/lab/overhead."""

from __future__ import annotations

import ast
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from assay_overhead.cells import MODES, OPERATORS, STUDY_MODES, cells_of
from framework import EACH, ENVIRONMENTS, Framework
from program import PROGRAM
from worker_under_test import ROOT

LOOPS = ROOT / "scripts/lab/overhead"
BERT = ENVIRONMENTS / "bert/bin/python"
sys.path.insert(0, str(LOOPS))
import clock  # noqa: E402
from clock import Loop, images_of, measure, reject_losses  # noqa: E402
from networks import NETWORKS  # noqa: E402
from operators import operands_of  # noqa: E402


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
        if file.name == "write_model.py":  # no loop: it writes the file that those of the runtimes read
            continue
        nodes = [*ast.walk(ast.parse(file.read_text()))]
        imported = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
        imported |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        own = {
            name for name in imported if name.startswith("assay") or (LOOPS.parent / f"{name}.py").exists()
        }
        assert own == set(), file
        backends = {path.stem for path in (ROOT / "backends").rglob("*.py")}
        assert imported & backends == set(), file


def networks_of_assay() -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [str(PROGRAM), "list", "workloads", "--json"], capture_output=True, text=True, check=True
    )
    return {one["name"]: one for one in json.loads(done.stdout) if not one["name"].startswith("op/")}


def told_by(python: Path, *command: object) -> Any:
    """Run a program in a framework's environment; return the JSON of its last line."""
    words = [str(word) for word in (python, *command)]
    # Threads that wait for each other take minutes on a busy machine.
    one = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=one, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1].removeprefix("loop: "))


@pytest.mark.parametrize("framework", EACH)
def test_loops_of_a_framework_agree_in_every_mode(framework: Framework) -> None:
    """All modes of a network take the same steps, and all modes of an operator give numpy's result."""
    name = framework.name
    asked = [MODES[name][0], *STUDY_MODES.get(name, ())] if name in STUDY_MODES else []
    calls = [f"{cell.network}:{cell.mode}" for cell in cells_of([name], [*OPERATORS])]
    calls = [call for call in calls if not call.endswith(":compile")]
    script = ROOT / "tests/python/run_loops.py"
    told = told_by(framework.python, script, name, LOOPS, ",".join(asked), ",".join(calls))
    assert set(told["parameters"].values()) <= {PARAMETERS_OF_LENET5}
    losses = told["losses"]
    # These have initial values or batches of their own.
    alone = {mode: losses.pop(mode) for mode in ("v1-graph", "fit-generator") if mode in losses}
    for mode, found in losses.items():
        assert found == pytest.approx(losses[asked[0]], rel=1e-4), mode
    for mode, found in alone.items():
        assert all(1 < loss < 4 for loss in found), f"{mode}: of ten classes, at its start"
    assert set(told["results"]) == set(calls)
    for call, found in told["results"].items():
        expected = sum_of_operator(call.split(":")[0])
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-3), call


PARAMETERS_OF_LENET5 = 60170


def sum_of_operator(name: str) -> float:
    """The sum of the result, by numpy."""
    x, *others = operands_of(name)
    results: dict[str, Callable[[], Any]] = {
        "op/sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "op/relu": lambda: np.maximum(x, 0),
        "op/tanh": lambda: np.tanh(x),
        "op/softplus": lambda: np.logaddexp(0, x),
        "op/softsign": lambda: x / (1 + np.abs(x)),
        "op/dot": lambda: x @ others[0],
        "op/gemm": lambda: x @ others[0].T,
        "op/normalise": lambda: x / np.linalg.norm(x),
    }
    return float(np.sum(results.get(name, lambda: x)()))  # those that make an array keep its numbers


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize("framework", EACH)
def test_loops_have_the_networks_of_assay(framework: Framework) -> None:
    listed = networks_of_assay()
    counts = told_by(framework.python, LOOPS / f"{framework.name}_loop.py", "--count")
    assert counts == {name: listed[name]["parameters"] for name in NETWORKS}


# Gives the network by hand the weights of the published one, and compares their logits of padded texts.
PUBLISHED = """
import sys, json, torch, transformers
sys.path.insert(0, sys.argv[1])
import numpy as np
from clock import images_of
from networks import NETWORKS
from torch_loop import trained
from torch_networks import MODELS, MiniLM, PublishedMiniLM
torch.manual_seed(1)
network = NETWORKS["minilm"]
ours, theirs = MiniLM(network.classes).eval(), PublishedMiniLM(network.classes).eval()
own, bert = ours.state_dict(), theirs.bert.state_dict()
places = [("attention.self.query", "query"), ("attention.self.key", "key"), ("attention.self.value", "value")]
places += [("attention.output.dense", "attention_output"), ("attention.output.LayerNorm", "attention_norm")]
places += [("intermediate.dense", "intermediate"), ("output.dense", "output")]
places += [("output.LayerNorm", "output_norm")]
given = {}
for name in own:
    first, *rest = name.split(".")
    if first == "classifier":
        given[name] = theirs.state_dict()[name]
    elif first == "layers":
        (there,) = [long for long, short in places if short == rest[1]]
        given[name] = bert[f"encoder.layer.{rest[0]}.{there}.{rest[2]}"]
    else:
        given[name] = bert[f"embeddings.{'LayerNorm' if first == 'norm' else first}.{rest[0]}"]
ours.load_state_dict(given)
tokens = torch.tensor(images_of(network, 4, np.random.default_rng(1))[0])
with torch.inference_mode():
    x, y = ours(tokens), theirs(tokens)
print(json.dumps({
    "used": MODELS["minilm"] is PublishedMiniLM,
    "version": transformers.__version__,
    "parameters": [trained(ours), trained(theirs)],
    "padded": bool((tokens == 0).any()),
    "logits": y.tolist(),
    "difference": float((x - y).abs().max()),
}))
"""


@pytest.mark.skipif(not BERT.exists(), reason="BertModel is not set up: scripts/setup --bert")
@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_minilm_is_the_bert_model_of_transformers_where_it_is_installed() -> None:
    counts = told_by(BERT, LOOPS / "torch_loop.py", "--count")
    assert counts["minilm"] == networks_of_assay()["minilm"]["parameters"]
    told = told_by(BERT, "-c", PUBLISHED, LOOPS)
    assert told["used"]
    assert told["parameters"] == [counts["minilm"]] * 2
    assert told["padded"]
    assert len({tuple(row) for row in told["logits"]}) == 4
    assert told["difference"] < 1e-5


@pytest.mark.skipif(not BERT.exists(), reason="BertModel is not set up: scripts/setup --bert")
@pytest.mark.parametrize(
    ("mode", "task", "precision"),
    [
        ("eager", "train", "fp32"),
        ("eager", "infer", "fp32"),
        ("eager", "infer", "bf16"),
        ("compile", "infer", "fp32"),
        ("compile", "train", "fp32"),
    ],
)
def test_the_loop_runs_the_bert_model_of_transformers(mode: str, task: str, precision: str) -> None:
    command = ["--network", "minilm", "--mode", mode, "--task", task, "--batch", 2, "--precision", precision]
    told = told_by(BERT, LOOPS / "torch_loop.py", *command, "--seconds", 0.1, "--warm-up-steps", 1)
    assert told["shape"] == [128]
    assert all(math.isfinite(loss) for loss in told["losses"])


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
