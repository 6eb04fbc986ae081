"""Each framework's worker against the plain numpy one: same folder, same commands, same answers."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import read_tensors
from framework import (
    BY_NAME,
    EACH,
    FRAMEWORKS,
    Framework,
    ask_numpy,
    assert_computes_with_what_it_drew,
    assert_same,
    at_once,
    take_what_dropout_drew,
)
from ops import OPS
from program import BUILD, PROGRAM, assay
from worker_under_test import ROOT, exam_batch

UNKNOWN = 255  # in a mask


@pytest.fixture(params=EACH)
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        ("convolutional", {"kind": "adam", "epsilon": 1e-3}),
        ("mlp", {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1}),
        ("mlp", {"kind": "sgd", "momentum": 0.0}),
        ("mlp", {"kind": "rmsprop"}),
    ],
    ids=["adam", "sgd", "sgd_plain", "rmsprop"],
)
def test_answers_as_numpy_does(
    framework: Framework, make_cell: Any, network: str, optimizer: dict[str, Any]
) -> None:
    if optimizer["kind"] == "rmsprop":
        optimizer = optimizer | {"epsilon": framework.rmsprop_epsilon}
    folder = make_cell(network, optimizer)
    assert_same(framework.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


TRANSFORMERS = [
    ("encoder", {"kind": "adamw", "epsilon": 1e-3, "weight_decay": 0.1}),
    ("decoder", {"kind": "adamw", "epsilon": 1e-3, "weight_decay": 0.1, "clip_norm": 0.01}),
    ("patches", {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1, "clip_norm": 0.02}),
]


@pytest.mark.parametrize(("network", "optimizer"), TRANSFORMERS, ids=[network for network, _ in TRANSFORMERS])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_transformers_answer_as_numpy_does(
    framework: Framework, make_cell: Any, network: str, optimizer: dict[str, Any], compiled: bool
) -> None:
    if compiled and framework.compiled_ops and network != "encoder":
        pytest.skip(f"{framework.name} compiles for a minute; the encoder has the most ops")
    folder = make_cell(network, optimizer, mode=framework.compiled if compiled else "eager")
    answers, heard = framework.ask(folder)
    assert heard[1]["settings"].get("compiled_graphs", "1") == "1" or not compiled
    assert_same(answers, ask_numpy(folder), 5e-5, 5e-6)


def test_compiled_steps_are_those_of_eager(framework: Framework, make_cell: Any) -> None:
    folder = make_cell("convolutional", mode=framework.compiled)
    answers, heard = framework.ask(folder)
    # The command compile leaves nothing to the first step.
    assert heard[1]["settings"].get("compiled_graphs", "1") == "1"
    assert_same(answers, ask_numpy(folder), 2e-5, 2e-6)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_inference_gives_what_its_step_computed(framework: Framework, make_cell: Any, compiled: bool) -> None:
    folder = make_cell("convolutional", mode=framework.compiled if compiled else "eager", task="infer")
    assert_same(framework.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


def test_running_statistics_take_the_biased_variance(framework: Framework, make_cell: Any) -> None:
    folder = make_cell("normalised")
    answers, _ = framework.ask(folder)
    given = read_tensors(folder / "check/state.safetensors")
    x, _ = OPS["convolution"](
        exam_batch(folder, 0)[0], given["conv1.weight"], given["conv1.bias"], stride=1, padding=0
    )
    for name, batch in (("mean", x.mean((0, 2, 3))), ("variance", x.var((0, 2, 3)))):
        expected = 0.9 * given[f"bn1.running_{name}"] + 0.1 * batch
        np.testing.assert_allclose(answers[f"first/running/bn1.running_{name}"], expected, rtol=1e-5)


def dropping_cell(make_cell: Any, mode: str) -> Path:
    # An epsilon that keeps Adam from making much of the rounding of small gradients: logits go up to 60 here.
    folder: Path = make_cell("dropping", {"kind": "adam", "epsilon": 1.0}, mode=mode)
    return folder


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_dropout_takes_the_masks_of_the_exam_and_then_draws_its_own(
    framework: Framework, make_cell: Any, compiled: bool
) -> None:
    folder = dropping_cell(make_cell, framework.compiled if compiled else "eager")
    answers, expected = framework.ask(folder)[0], ask_numpy(folder)
    own, expected_own = take_what_dropout_drew(answers), take_what_dropout_drew(expected)
    assert_same(answers, expected, 1e-3, 1e-3)
    # The masks of the exam keep a half; what is drawn goes by the rate.
    for drawn in (own, expected_own):
        for name, kept in (("drop1", 0.75), ("drop2", 0.5)):
            first, second = drawn[f"draws/{name}.mask"]
            known = (first != UNKNOWN) & (second != UNKNOWN)
            assert known.sum() > 200
            agree = kept**2 + (1 - kept) ** 2
            for found, share in ((first == 1, kept), (second == 1, kept), (first == second, agree)):
                assert abs(found[known].sum() - share * known.sum()) < 6 * np.sqrt(0.25 * known.sum())
        assert_computes_with_what_it_drew(drawn, folder)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_process_that_stays_draws_masks_again_after_the_exam(
    framework: Framework, make_cell: Any, compiled: bool
) -> None:
    folder = dropping_cell(make_cell, framework.compiled if compiled else "eager")
    heard = framework.hear(folder, "compile", "verify", "restart", "verify", "quit")
    assert [event["event"] for event in heard][2:] == ["verified", "restarted", "verified", "bye"]
    answers = read_tensors(folder / "results/verify.safetensors")
    assert_computes_with_what_it_drew(take_what_dropout_drew(answers), folder)


@pytest.mark.parametrize(
    "mode", ["xla", "autocluster", "fit", "fit-xla", "fit-autocluster", "fit-eager", "v1-graph"]
)
def test_other_loops_compute_with_the_masks_that_they_draw(make_cell: Any, mode: str) -> None:
    tensorflow = next(framework for framework in FRAMEWORKS if framework.name == "tensorflow")
    if not tensorflow.python.exists():
        pytest.skip("tensorflow is not set up: scripts/setup --framework tensorflow")
    folder = dropping_cell(make_cell, mode)
    answers, expected = tensorflow.ask(folder)[0], ask_numpy(folder)
    drawn = take_what_dropout_drew(answers)
    assert_computes_with_what_it_drew(drawn, folder)
    take_what_dropout_drew(expected)
    assert_same(answers, expected, 1e-3, 1e-3)


@pytest.mark.parametrize("network", ["convolutional", "encoder"])
def test_bf16_is_coarser_than_fp32_and_near_it(framework: Framework, make_cell: Any, network: str) -> None:
    if "bf16" not in framework.precisions:
        pytest.skip(f"{framework.name} has no bf16 here")
    folder = make_cell(network)
    exact, _ = framework.ask(folder)
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"precision": "bf16"}))
    coarse, _ = framework.ask(folder)
    error = np.abs(coarse["evaluation/logits"] - exact["evaluation/logits"]).max()
    assert 1e-5 < error < 0.05 * np.abs(exact["evaluation/logits"]).max()


@pytest.mark.parametrize("network", ["convolutional", "encoder"])
def test_bf16_inference_gives_the_bits_of_casts_in_each_step(
    framework: Framework, make_cell: Any, network: str
) -> None:
    if "bf16" not in framework.precisions:
        pytest.skip(f"{framework.name} has no bf16 here")
    folder = make_cell(network, precision="bf16")
    in_each_step, _ = framework.ask(folder)  # a training step casts parameters that it has just changed
    (folder / "check/continuation.json").unlink()
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"task": "infer"}))
    subject = json.loads((folder / "check/exam.json").read_text())
    (folder / "check/exam.json").write_text(json.dumps(subject | {"kind": "inference"}))
    once, _ = framework.ask(folder)
    np.testing.assert_array_equal(once["logits"][0], in_each_step["evaluation/logits"])


@pytest.mark.parametrize("network", ["convolutional", "encoder"])
def test_bf16_inference_casts_no_parameter(framework: Framework, make_cell: Any, network: str) -> None:
    if "bf16" not in framework.precisions:
        pytest.skip(f"{framework.name} has no bf16 here")
    # The adapter of TensorFlow lets Keras cast the parameters of norms, as it does for its users.
    assert casts_in(framework, make_cell(network, task="infer", precision="bf16")) == 0


def casts_in(framework: Framework, folder: Path) -> int:
    script = Path(__file__).with_name("count_casts.py")
    paths = [framework.worker.parent, ROOT / "backends/python"]
    command = [framework.python, script, framework.name, folder, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def test_bf16_decoding_casts_no_parameter(framework: Framework, tmp_path: Path) -> None:
    if "decode" not in json.loads((framework.worker.parent / "backend.json").read_text())["tasks"]:
        pytest.skip(f"{framework.name} has no task decode")
    if not (BUILD / "backends/reference/assay-worker-reference").exists():
        pytest.skip("the backend reference, which lays out the cell, is not built")
    network = ("--workload", "nanogpt", "--task", "decode", "--sequence-length", "12", "--batch", "2")
    how = ("--precision", "bf16", "--dataset", "synthetic", "--steps", "1", "--forks", "1", "--check=false")
    command = [PROGRAM, "run", *network, *how, "--backend", "reference", "--mode", "eager", "--keep-folders"]
    laid_out = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [*command, "--out", tmp_path / "r.json"], env=laid_out, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (graph,) = tmp_path.rglob("nanogpt_*/graph.json")
    assert casts_in(framework, graph.parent) == 0


def test_a_device_that_is_not_there_is_a_row_and_no_crash(
    framework: Framework, make_cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    heard = framework.hear(make_cell("mlp", device="cuda"), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert heard[1]["kind"] == "unavailable"


def test_hello_tells_the_libraries(framework: Framework, make_cell: Any) -> None:
    heard = framework.hear(make_cell("mlp", threads=2), "quit", fresh=True)
    libraries = {library["name"]: library for library in heard[0]["libraries"]}
    assert Path(libraries[framework.library]["path"]).exists()
    assert libraries[framework.library]["version"]


@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        ("mlp", {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.1}),
        ("convolutional", {"kind": "adam", "epsilon": 1e-3}),
    ],
    ids=["sgd", "adam"],
)
@pytest.mark.parametrize(
    "mode", ["fit", "fit-xla", "fit-autocluster", "fit-eager", "fit-generator", "v1-graph"]
)
def test_other_loops_take_the_steps_of_the_other_modes(
    make_cell: Any, mode: str, network: str, optimizer: dict[str, Any]
) -> None:
    tensorflow = next(framework for framework in FRAMEWORKS if framework.name == "tensorflow")
    if not tensorflow.python.exists():
        pytest.skip("tensorflow is not set up: scripts/setup --framework tensorflow")
    loader = {"loader": {"kind": "native"}} if mode == "fit-generator" else {}
    folder = make_cell(network, optimizer, mode=mode, **loader)
    assert_same(tensorflow.ask(folder)[0], ask_numpy(folder), 2e-5, 2e-6)


def test_fit_calls_nothing_at_the_end_of_a_batch() -> None:
    """With such a method in any callback, Keras reads every loss in the thread that trains."""
    tree = ast.parse((ROOT / "backends/tensorflow/tensorflow_fit.py").read_text())
    methods = {
        node.name: {one.name for one in node.body if isinstance(one, ast.FunctionDef)}
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    assert "on_train_batch_begin" in methods["BlockClock"]
    assert not methods["BlockClock"] & {"on_train_batch_end", "on_batch_end"}
    assert not [name for name in methods["EpochClock"] if "batch" in name], "a step is that of a user's fit"


@pytest.mark.parametrize(
    ("options", "fed_by"),
    [
        ({"mode": "fit", "loader": "native"}, "arrays"),
        ({"mode": "fit", "loader": "native", "samples": 84}, "tf.data"),  # no whole number of batches
        ({"mode": "fit-generator", "loader": "native"}, "generator"),
        ({"mode": "fit", "loader": "harness"}, None),  # with a callback for each step
    ],
)
def test_fit_is_fed_as_asked_and_counts_its_accuracy(
    tmp_path: Path, options: dict[str, Any], fed_by: str | None
) -> None:
    if not BY_NAME["tensorflow"].python.exists() or not PROGRAM.exists():
        pytest.skip("the program is not built, or tensorflow is not set up: scripts/setup")
    report = tmp_path / "report.json"
    asked = {"workload": "mlp", "dataset": "synthetic", "samples": 80, "batch": 8, "epochs": 2} | options
    words = [word for name, value in asked.items() for word in (f"--{name}", value)]
    assay(
        *("run", *words, "--backend", "tensorflow", "--running-accuracy", "--threads", 1, "--forks", 1),
        *("--spare-rounds", 0, "--roofline", "false", "--out", report),
        backends=at_once(tmp_path, "tensorflow", str(options["mode"])),
    )
    (cell,) = json.loads(report.read_text())["cells"]
    assert cell["status"] == "ok", cell["reason"]
    fork = cell["forks"][0]
    assert fork["settings"].get("fed_by") == fed_by
    assert len(fork["blocks"]["accuracy"]) == 2
    for share in fork["blocks"]["accuracy"]:
        assert 0 < share < 1
        assert abs(80 * share - round(80 * share)) < 1e-4, "a share of the ten batches of an epoch"
