"""What a backend.json refuses is named before a worker is started, and no shipped config asks for it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from assay_worker import Cell, Unavailable, Unsupported, memory_share, refuse, total_gpu_memory
from framework import BY_NAME
from program import PROGRAM, assay
from worker_under_test import ROOT

INCOMPLETE = 4  # nothing here can be run


REFUSED = [
    ("torch --mode freeze", "frozen weights cannot be trained"),
    ("torch --mode aot", "an exported program infers whole batches"),
    ("torch --mode cudagraph", "needs a CUDA device"),
    ("torch --mode compile-reduce-overhead", "need a CUDA device"),
    ("torch --mode cudnn-benchmark", "needs a CUDA device"),
    ("torch --mode layer --workload op/add", "PyTorch has no module for this op"),
    ("jax --mode scan --task infer", "the loop returns after its last"),
    ("jax --mode scan --loader harness", "--loader resident"),
    ("mxnet --mode mkldnn", "have no gradients"),
    ("mxnet --mode two-contexts --workload cifar10-cnn", "statistics and masks of its own half"),
    ("mxnet --mode hybridize --recompute mirror", "MXNET_BACKWARD_DO_MIRROR"),
    ("tensorflow --mode graph --workload resnet56 --recompute sqrt", "running statistics twice"),
    ("tensorflow --mode tensordot --workload op/relu", "is not a product"),
]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize(("options", "reason"), REFUSED, ids=[options for options, _ in REFUSED])
def test_a_cell_that_a_backend_refuses_is_named_before_it_is_started(options: str, reason: str) -> None:
    words = ["--backend", *options.split()]
    if "--workload" not in words:
        words += ["--workload", "mlp"]
    if "op/" not in options:
        words += ["--dataset", "synthetic"]
    done = assay("run", *words, "--dry-run")
    assert done.returncode == INCOMPLETE, done.stdout + done.stderr
    assert "unsupported" in done.stdout
    assert reason in done.stdout


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize(
    ("options", "files", "remedy"),
    [
        ("--workload nanogpt --backend onednn", ["a.txt"], "--dataset text"),
        ("--workload mlp --backend onednn --dataset synthetic", ["x.npy", "y.npy"], "--inputs FILE.npy"),
        ("--workload op/relu --backend onednn", ["a.txt"], "--dataset text"),
        ("--workload nanogpt --backend onednn --dataset text", ["a.txt", "b.txt"], "has another one"),
    ],
)
def test_a_file_that_no_cell_reads_is_refused(
    tmp_path: Path, options: str, files: list[str], remedy: str
) -> None:
    paths = [tmp_path / name for name in files]
    for path in paths:
        path.write_text("to be or not to be\n")
    words = [word for path in paths for word in ("--data", path)]
    done = assay("run", *options.split(), *words, "--dry-run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"'{paths[-1] if 'another' in remedy else paths[0]}'" in done.stderr
    assert remedy in done.stderr


def test_adapters_refuse_a_network_with_two_inputs() -> None:
    graph = {"name": "two", "values": {}, "nodes": [], "outputs": {"left": "x", "right": "y"}, "updates": {}}
    with pytest.raises(Unsupported, match="one input and the output logits"):
        refuse(SimpleNamespace(is_op=False, packs_inputs=True, inference=SimpleNamespace(**graph)))


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize("config", sorted((ROOT / "configs").glob("*.json")), ids=lambda path: path.stem)
def test_no_row_of_a_shipped_config_is_dead(config: Path) -> None:
    """Every cell can be run, or lacks what another machine has: a backend, a device, a data set."""
    done = assay("run", config, "--dry-run")
    # Where no backend is named, the one for GPUs and the tests' one that only infers take part in every row.
    others = re.compile("/cuda/cpu/|/numpy-infer/")
    dead = [line for line in done.stdout.splitlines() if "unsupported" in line and not others.search(line)]
    assert not dead
    assert done.returncode in (0, INCOMPLETE), done.stderr


@pytest.mark.parametrize(
    ("asked", "share"),
    [
        ({}, None),
        ({"memory_fraction": 0.25}, 0.25),
        ({"memory_cap_bytes": 2 << 30}, 0.5),
        ({"memory_fraction": 0.25, "memory_cap_bytes": 2 << 30}, 0.25),
        ({"memory_cap_bytes": 8 << 30}, 1.0),
    ],
)
def test_the_smaller_limit_on_the_memory_counts(
    tmp_path: Path, asked: dict[str, Any], share: float | None
) -> None:
    assert memory_share(Cell(tmp_path, {"mode": "eager"} | asked), 4 << 30) == share


def test_without_a_driver_the_memory_of_a_gpu_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="no driver"):
        total_gpu_memory("libno-such-driver.so")


LIMITED = """
import os, pathlib, sys
sys.path[:0] = sys.argv[1:]
import jax_settings
from assay_worker import Cell
cell = Cell(pathlib.Path("."), {"mode": "jit", "memory_cap_bytes": 1 << 30})
jax_settings.limit_memory(cell, 4 << 30)
print(os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"])
"""


def printed(framework: str, code: str) -> str:
    """Run code in the environment of a framework, with its adapter's folder in the path."""
    found = BY_NAME[framework]
    if not found.python.exists():
        pytest.skip(f"{framework} is not set up: scripts/setup --framework {framework}")
    folders = [ROOT / "backends" / name for name in ("python", framework)]
    done = subprocess.run([found.python, "-c", code, *folders], capture_output=True, text=True, check=True)
    return done.stdout


def test_jax_is_held_to_the_share_that_a_cap_is() -> None:
    assert float(printed("jax", LIMITED)) == 0.25


# The greatest magnitude of the kernel and of the bias of a linear layer from 400 to 120.
LINEAR = {
    "torch": "import torch; layer = torch.nn.Linear(400, 120); found = [layer.weight, layer.bias]; "
    "print(*(float(one.abs().max()) for one in found))",
    "tensorflow": "import keras; layer = keras.layers.Dense(120); layer.build((1, 400)); "
    "print(*(abs(one.numpy()).max() for one in layer.weights))",
    "mxnet": "from mxnet.gluon import nn; layer = nn.Dense(120, in_units=400); layer.initialize(); "
    "print(*(abs(one.data().asnumpy()).max() for one in (layer.weight, layer.bias)))",
}


@pytest.mark.parametrize(
    ("framework", "scheme", "kernel", "bias"),
    [
        ("torch", "torch", 1 / 400**0.5, 1 / 400**0.5),
        ("tensorflow", "keras", (6 / (400 + 120)) ** 0.5, 0.0),
        ("mxnet", "gluon", 0.07, 0.0),
    ],
)
def test_layers_start_from_what_initial_own_draws(
    framework: str, scheme: str, kernel: float, bias: float
) -> None:
    """tests/unit/conductor/data/initial_values_test.cpp has the same numbers for the schemes."""
    description = json.loads((ROOT / "backends" / framework / "backend.json").read_text())
    assert description["initial"] == scheme
    greatest = [float(one) for one in printed(framework, LINEAR[framework]).split()]
    assert greatest == pytest.approx([kernel, bias], rel=0.05)
