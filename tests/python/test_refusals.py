"""A worker refuses what its backend.json says, with the same words, and no shipped config asks for it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from assay_worker import Cell, Unavailable, Unsupported, memory_share, refuse, total_gpu_memory
from assay_worker.program import read_program
from assay_worker.refusals import AXES, holds
from framework import BY_NAME, EACH, Framework
from program import PROGRAM, assay
from worker_under_test import ROOT

INCOMPLETE = 4  # nothing here can be run


def rules_of(backend: str) -> list[dict[str, Any]]:
    return json.loads((ROOT / "backends" / backend / "backend.json").read_text())["refuses"]


def read(folder: Path) -> tuple[Cell, Any]:
    request = json.loads((folder / "request.json").read_text())
    return Cell(folder, request), read_program(folder / "graph.json")


def test_a_rule_holds_where_all_of_its_conditions_do(make_cell: Any) -> None:
    folder = make_cell("mlp", {"kind": "sgd", "weight_decay": 0.1}, loader={"kind": "native", "workers": 1})
    cell, program = read(folder)
    for rule in (
        {},
        {"tasks": ["train", "infer"], "modes": ["eager"], "devices": ["cpu"], "precisions": ["fp32"]},
        {"optimizers": ["sgd"], "ops": ["lstm", "relu"], "loaders": ["native"]},
        {"single_ops": False, "row_sparse": False, "weight_decay": True, "encoded_images": False},
        {"several_ranks": False},
    ):
        assert holds(rule, cell, program), rule
    for rule in (
        {"tasks": ["infer"]},
        {"tasks": ["train"], "modes": ["graph"]},
        {"optimizers": ["adam"]},
        {"ops": ["lstm"]},
        {"single_ops": True},
        {"row_sparse": True},
        {"weight_decay": False},
        {"encoded_images": True},
        {"several_ranks": True},
    ):
        assert not holds(rule, cell, program), rule
    (folder / "data").mkdir()
    (folder / "data/manifest.json").write_text(json.dumps({"kind": "encoded"}))
    assert holds({"encoded_images": True}, cell, program)


def test_no_rule_on_the_optimizer_holds_for_a_program_that_only_infers(make_cell: Any) -> None:
    cell, program = read(make_cell("mlp", task="infer"))
    assert holds({"tasks": ["infer"], "weight_decay": False}, cell, program)
    assert not holds({"optimizers": ["adam"]}, cell, program)


def test_a_value_that_a_backend_does_not_list_is_refused(make_cell: Any) -> None:
    cell, program = read(make_cell("mlp", mode="turbo"))
    with pytest.raises(Unsupported, match=r"mode 'turbo': eager, compile"):
        refuse(cell, program, ROOT / "backends/torch")


@pytest.mark.parametrize("framework", EACH)
def test_a_worker_refuses_by_the_rules_of_its_backend_json(framework: Framework, make_cell: Any) -> None:
    """The first rule of those that a network of the tests can meet."""
    of_others = {"ops", "row_sparse", "encoded_images", "weight_decay"}
    rule = next(
        rule for rule in rules_of(framework.name) if not of_others & set(rule) and not rule.get("single_ops")
    )
    request = {axis: rule[listed][0] for listed, axis in AXES.items() if listed in rule}
    optimizer = {"kind": rule.get("optimizers", ["adam"])[0]}
    heard = framework.hear(make_cell("mlp", optimizer, **request), "compile", "quit")
    assert [event["event"] for event in heard] == ["hello", "error", "bye"]
    assert (heard[1]["kind"], heard[1]["reason"]) == ("unsupported", rule["reason"])


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
