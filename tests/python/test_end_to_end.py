"""Whole runs of the program with the workers that are not in C++."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework import BY_NAME, ENVIRONMENTS, at_once
from program import PROGRAM, assay
from report_rows import rows
from worker_under_test import ROOT

TORCH_PYTHON = BY_NAME["torch"].python
NUMPY_PYTHON = TORCH_PYTHON.parents[2] / "numpy/bin/python"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
numpy_only = pytest.mark.skipif(not NUMPY_PYTHON.exists(), reason="numpy is not set up: scripts/setup")
torch_only = pytest.mark.skipif(
    not TORCH_PYTHON.exists(), reason="PyTorch is not set up: scripts/setup --framework torch"
)


def run(
    out: Path,
    *arguments: object,
    forks: int = 1,
    dataset: str = "synthetic",
    backends: Path = ROOT / "tests",
) -> dict[str, Any]:
    """Run one cell; its row, from a report that is valid."""
    common = ("--dataset", dataset, "--forks", forks, "--threads", 1, "--out", out)
    done = assay("run", *common, *arguments, backends=backends)
    assert done.returncode == 0, done.stderr + done.stdout
    checked = assay("validate", out)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    (cell,) = json.loads(out.read_text())["cells"]
    assert cell["status"] == "ok"
    assert cell["equivalence"]["passed"]
    return cell


def test_the_best_mode_is_found_and_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    short = ("--workload", "mlp", "--backend", "onednn", "--blocks", 3, "--block-seconds", 0.02)
    short += ("--warm-up-steps", 3, "--warm-up-seconds", 0.05, "--roofline", "false")
    cell = run(tmp_path / "r.json", *short, "--mode", "best")
    (best,) = json.loads((tmp_path / "r.json").read_text())["run"]["best"]
    fast, slow = best["tried"]
    assert {fast["mode"], slow["mode"]} == {"graph", "eager"}
    assert cell["axes"]["mode"] == fast["mode"]
    assert "better" not in cell
    other = run(tmp_path / "s.json", *short, "--mode", slow["mode"])
    # Only if the interval shows it: others may have disturbed all rounds of the search.
    assert ("better" in other) == (slow.get("lower", 0) > 1)
    if "better" in other:
        assert other["better"]["ratio"] == pytest.approx(1 / slow["ratio"])


@numpy_only
def test_a_backend_of_a_few_dozen_lines_is_checked_and_timed(tmp_path: Path) -> None:
    cell = run(tmp_path / "r.json", "--workload", "mlp", "--backend", "numpy", "--steps", 20)
    timed = [block for block in rows(cell["forks"][0]["blocks"]) if block["kind"] == "timed"]
    assert sum(block["steps"] for block in timed) == 20
    assert cell["metrics"]["step_time"]["value"] > 0
    assert len(cell["forks"][0]["parameters_digest"]) == 64


@numpy_only
@pytest.mark.parametrize("workload", ["lenet5", "cnn"])
def test_plain_numpy_and_the_oracle_agree_on_convolutions(tmp_path: Path, workload: str) -> None:
    run(tmp_path / "r.json", "--workload", workload, "--batch", 8, "--backend", "numpy", "--steps", 2)


@numpy_only
def test_epochs_and_inference_go_through_the_same_worker(tmp_path: Path) -> None:
    cell = run(tmp_path / "r.json", "--workload", "mlp", "--backend", "numpy", "--epochs", 1, "--batch", 512)
    assert {e["split"] for e in rows(cell["forks"][0]["evaluations"])} == {"train", "validation", "test"}
    infer = ["--workload", "mlp", "--backend", "numpy", "--task", "infer", "--steps", 20]
    assert run(tmp_path / "i.json", *infer)["metrics"]["latency_p50"]["value"] > 0


# As short as --quick makes them, without its limit of two minutes, which a busy machine exceeds.
SHORT = ["--forks", 1, "--spare-rounds", 0, "--blocks", 3, "--block-seconds", 0.02, "--distinct", 2]
SHORT += ["--warm-up-steps", 3, "--warm-up-seconds", 0.05, "--roofline", "false"]


def ops(out: Path, *arguments: object, backends: Path = ROOT / "tests") -> list[dict[str, Any]]:
    """Run single ops, each small; their rows, all equal to the oracle."""
    done = assay("run", *SHORT, "--threads", 1, "--out", out, *arguments, backends=backends)
    checked = assay("validate", out)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    cells = json.loads(out.read_text())["cells"]
    assert {cell["status"] for cell in cells} == {"ok"}, done.stderr + done.stdout
    assert all(cell["equivalence"]["passed"] for cell in cells)
    return cells


@numpy_only
def test_single_ops_run_forwards_and_backwards_in_numpy(tmp_path: Path) -> None:
    both_ways = "op/relu,op/add,op/linear,op/dropout"
    cells = ops(tmp_path / "r.json", "--workload", both_ways, "--size", 4, "--backend", "numpy")
    assert {cell["axes"]["task"] for cell in cells} == {"infer", "train"}
    made = ops(
        *(tmp_path / "m.json", "--workload", "op/from_array,op/from_list,op/from_rows"),
        *("--size", 16, "--backend", "numpy"),
    )
    assert len(made) == 3
    cold = ["--workload", "op/relu", "--size", 4096, "--cache", "cold", "--backend", "numpy"]
    assert {cell["axes"]["cache"] for cell in ops(tmp_path / "c.json", *cold)} == {"cold"}


@torch_only
@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("train", "op/linear,op/softmax_cross_entropy,op/batch_norm"),
        ("train", "op/dropout,op/embedding,op/lstm"),
        ("train", "op/concat,op/transpose,op/reduce_sum"),
        ("infer", "op/from_rows,op/from_list,op/dropout"),
    ],
)
def test_single_ops_run_forwards_and_backwards_in_torch(tmp_path: Path, task: str, names: str) -> None:
    common = ["--size", 4, "--backend", "torch", "--mode", "eager"]
    backends = at_once(tmp_path, "torch", "eager")
    made = ops(tmp_path / "r.json", "--workload", names, "--task", task, *common, backends=backends)
    assert len(made) == 3


@torch_only
def test_torch_is_checked_and_timed(tmp_path: Path) -> None:
    cell = run(
        tmp_path / "r.json", "--workload", "mlp", "--backend", "torch", "--mode", "eager", "--steps", 20
    )
    assert any(library["name"] == "oneDNN" for library in cell["libraries"])
    assert cell["forks"][0]["settings"]["threads"] == "1"


@pytest.mark.parametrize(
    ("backend", "mode", "precision"),
    [
        ("reference", "graph", "fp32"),
        ("onednn", "graph", "fp32"),
        ("onednn", "primitives", "fp32"),
        ("torch", "eager", "fp32"),
        ("torch", "eager", "bf16"),
        pytest.param("torch", "compile", "fp32", marks=pytest.mark.nightly),  # it compiles for a minute
        pytest.param("torch", "freeze", "bf16", marks=pytest.mark.nightly),
        ("jax", "eager", "fp32"),
        ("jax", "jit", "fp32"),
        ("jax", "jit", "bf16"),
    ],
)
def test_tokens_are_checked_and_timed_one_by_one(
    tmp_path: Path, backend: str, mode: str, precision: str
) -> None:
    framework = backend in ("torch", "jax")
    if framework and not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    network = ["--workload", "nanogpt", "--task", "decode", "--sequence-length", 12, "--batch", 4]
    how = ["--backend", backend, "--mode", mode, "--precision", precision, "--steps", 20]
    cell = run(tmp_path / "r.json", *network, *how, backends=at_once(tmp_path, backend, mode))
    names = {tensor["name"] for tensor in rows(cell["equivalence"]["tensors"])}
    assert names == {"logits", "run/last/logits", "run/read/logits", "run/logits"}, (
        "of the exam and of the run"
    )
    (fork,) = cell["forks"]
    assert len(fork["prefills_ns"]) == 20
    assert len(fork["latencies_ns"]) == 20 * 6, "a prompt of 6 tokens, and 6 tokens after it"
    metrics = cell["metrics"]
    for name in ("prefill_time", "token_time_p50", "tokens_per_second"):
        assert metrics[name]["value"] > 0, name
    assert metrics["token_time_p99"]["value"] is None, "120 tokens do not show the slowest hundredth"
    # Keys and values of 4 layers, 4 samples, 12 places, 128 wide.
    assert metrics["cache_bytes"]["value"] == 2 * 4 * 4 * 12 * 128 * (2 if precision == "bf16" else 4)
    assert metrics["latency_p50"]["value"] is None


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("backend", "mode"), [("torch", "eager"), ("tensorflow", "graph"), ("mxnet", "eager")]
)
def test_a_frameworks_own_loader_trains_as_well(
    tmp_path: Path, backend: str, mode: str, workers: int
) -> None:
    if not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    options = ["--workload", "mlp", "--backend", backend, "--mode", mode, "--epochs", 1, "--samples", 3200]
    options += ["--loader", "native", "--loader-workers", workers]
    cell = run(tmp_path / "r.json", *options, backends=at_once(tmp_path, backend, mode))
    assert cell["axes"]["loader_workers"] == workers
    (block,) = (block for block in rows(cell["forks"][0]["blocks"]) if block["kind"] == "timed")
    assert block["steps"] == 100
    # Each class has its own picture: a network that sees the right labels learns it.
    assert cell["metrics"]["train_accuracy"]["value"] > 0.5


@pytest.mark.parametrize(("backend", "mode"), [("onednn", "graph"), ("torch", "eager")])
def test_a_run_on_one_batch_is_continued_with_it(tmp_path: Path, backend: str, mode: str) -> None:
    if backend == "torch" and not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    options = ["--workload", "mlp", "--backend", backend, "--mode", mode, "--steps", 24]
    options += ["--resident-batches", 1, "--warm-up-steps", 2, "--warm-up-seconds", 0]
    cell = run(tmp_path / "r.json", *options)
    assert "continuation/loss" in cell["equivalence"]["tensors"]["name"]


@torch_only
def test_a_frameworks_own_loader_reads_own_arrays(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", draw.normal(size=(200, 1, 28, 28)).astype("f4"))
    np.save(tmp_path / "y.npy", np.arange(200) % 10)
    options = ["--workload", "lenet5", "--backend", "torch", "--mode", "eager", "--loader", "native"]
    options += ["--batch", 8, "--steps", 24, "--optimizer", "sgd", "--learning-rate", 0.05]
    options += ["--inputs", tmp_path / "x.npy", "--labels", tmp_path / "y.npy"]
    cell = run(tmp_path / "r.json", *options, dataset="npy")
    assert "loader/losses" in cell["equivalence"]["tensors"]["name"]


@pytest.mark.parametrize(("backend", "mode"), [("jax", "jit"), ("mxnet", "hybridize")])
def test_a_long_run_is_replayed_within_what_roundings_grow_to(
    tmp_path: Path, backend: str, mode: str
) -> None:
    if not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    # With seed 1, these part from our own engine by 0.001 of the loss after step 128: a unit changed sides.
    options = ["--workload", "mlp", "--backend", backend, "--mode", mode, "--steps", 400]
    options += ["--block-seconds", 0.0001, "--warm-up-steps", 1, "--warm-up-seconds", 0, "--seed", 1]
    cell = run(tmp_path / "r.json", *options, dataset="fashion-mnist")
    assert any(name.startswith("replay/") for name in cell["equivalence"]["tensors"]["name"])


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_losses_that_single_events_part_are_allowed_for(tmp_path: Path) -> None:
    """The first nudged replay meets none of them; after two steps the losses are 0.3 % apart."""
    report = tmp_path / "report.json"
    done = assay(
        *("run", "--workload", "googlenet_bn", "--image-size", 96, "--batch", 2, "--backend", "reference"),
        *("--dataset", "synthetic", "--seed", 3, "--steps", 3, "--warm-up-steps", 1, "--warm-up-seconds", 0),
        *("--block-seconds", 0.0001, "--resident-batches", 3, "--forks", 1, "--threads", 1, "--out", report),
    )
    (cell,) = json.loads(report.read_text())["cells"]
    assert cell["status"] == "ok", done.stdout + done.stderr
    if not any(name.startswith("replay/") for name in cell["equivalence"]["tensors"]["name"]):
        pytest.skip("the machine was too busy for a replay in its time")


@pytest.mark.parametrize(
    ("backend", "mode"),
    [
        pytest.param("torch", "compile", marks=pytest.mark.nightly),  # it compiles for a minute
        ("tensorflow", "graph"),
        ("jax", "jit"),
    ],
)
def test_a_step_is_compiled_once(tmp_path: Path, backend: str, mode: str) -> None:
    if not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    options = ["--workload", "mlp", "--backend", backend, "--mode", mode, "--epochs", 2, "--samples", 320]
    (fork,) = run(tmp_path / "r.json", *options)["forks"]
    assert fork["settings"]["compiled_graphs"] == "1"


def test_a_row_whose_compiler_was_off_has_failed(tmp_path: Path) -> None:
    if not (ENVIRONMENTS / "jax/bin/python").exists():
        pytest.skip("jax is not set up: scripts/setup --framework jax")
    out = tmp_path / "r.json"
    options = ["--workload", "mlp", "--dataset", "synthetic", "--backend", "jax", "--threads", 1]
    done = assay("run", *options, *SHORT, "--environment", "JAX_DISABLE_JIT=1", "--out", out)
    (cell,) = json.loads(out.read_text())["cells"]
    assert cell["reason_code"] == "nothing_compiled", cell["reason"] + done.stderr
    assert "Workers had JAX_DISABLE_JIT=1" in done.stdout


@pytest.mark.parametrize(
    ("loader", "mode"),
    [("resident", "fit"), ("harness", "fit"), ("harness", "fit-eager"), ("harness", "v1-graph")],
)
def test_tensorflows_other_loops_run_block_by_block(tmp_path: Path, loader: str, mode: str) -> None:
    if not (ENVIRONMENTS / "tensorflow/bin/python").exists():
        pytest.skip("tensorflow is not set up: scripts/setup --framework tensorflow")
    measure = ["--steps", 30] if loader == "resident" else ["--epochs", 2, "--samples", 320]
    options = ["--workload", "mlp", "--backend", "tensorflow", "--mode", mode, *measure]
    cell = run(tmp_path / "r.json", *options, backends=at_once(tmp_path, "tensorflow", mode))
    timed = [block["steps"] for block in rows(cell["forks"][0]["blocks"]) if block["kind"] == "timed"]
    assert sum(timed) == (30 if loader == "resident" else 20)


@pytest.mark.parametrize(("backend", "mode"), [("numpy", "eager"), ("onednn", "graph"), ("torch", "eager")])
def test_resident_forks_leave_the_state_that_fresh_ones_leave(
    tmp_path: Path, backend: str, mode: str
) -> None:
    if backend == "torch" and not (ENVIRONMENTS / "torch/bin/python").exists():
        pytest.skip("torch is not set up: scripts/setup --framework torch")
    digests = {}
    examine = "all" if backend == "onednn" else "some"
    for style in ("fresh", "resident"):
        cells = f"--workload lenet5 --batch 8 --backend {backend} --mode {mode} --fork-style {style}"
        measure = f"--examine {examine} --steps 5 --warm-up-steps 2 --warm-up-seconds 0 --spare-rounds 0"
        backends = at_once(tmp_path / style, backend, mode)
        cell = run(tmp_path / f"{style}.json", *cells.split(), *measure.split(), forks=3, backends=backends)
        assert [fork.get("resident", False) for fork in cell["forks"]] == [False, *[style == "resident"] * 2]
        examined = [fork.get("examined", False) for fork in cell["forks"]]
        assert examined == ["check" in fork["spent"] for fork in cell["forks"]]
        assert examined[0] and (all(examined) or (style, examine) == ("resident", "some"))
        assert any(examined[1:]), "the first fork is not the only one"
        digests[style] = [fork["parameters_digest"] for fork in cell["forks"]]
    assert digests["resident"] == digests["fresh"]
    assert len(set(digests["fresh"])) == 3


@numpy_only
def test_cells_with_one_program_are_checked_once(tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    options = ["--workload", "mlp", "--backend", "numpy", "--learning-rate", "0.001,0.01"]
    options += ["--epochs", 1, "--samples", 256]
    done = assay("run", "--dataset", "synthetic", "--forks", 1, "--threads", 1, "--out", out, *options)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(out.read_text())["cells"]
    assert "shared" not in first["equivalence"]["settings"]
    assert second["equivalence"]["settings"]["shared"] == first["id"]
    assert second["equivalence"]["passed"]
    assert done.stderr.count("check: equal to the oracle") == 1
    spent = {share["name"]: share["seconds"] for share in shown(out)["reports"][0]["time_spent"]}
    assert spent["timed blocks"] > 0
    assert spent["starting and ending workers"] > 0


def shown(report: Path) -> dict[str, Any]:
    return json.loads(assay("show", "--format", "json", report).stdout)
