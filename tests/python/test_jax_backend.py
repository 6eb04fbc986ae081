"""Tests of the jax worker only."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from framework import (
    BY_NAME,
    ask_numpy,
    assert_computes_with_what_it_drew,
    assert_same,
    take_what_dropout_drew,
)
from worker_under_test import ROOT

JAX = BY_NAME["jax"]
pytestmark = JAX.skip
TWO_SLOTS = {"kind": "resident", "resident_batches": 2}

# Takes 70 steps with a rate that changes, as one block and one by one; prints how far apart they are.
BLOCKS = """
import json, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path[:0] = sys.argv[2:]
import numpy as np
from assay_worker import Cell
from assay_worker.program import read_program
from assay_worker.tensors import read_tensors
from jax_adapter import JaxAdapter
cell = Cell(folder, json.loads((folder / "request.json").read_text()))
program = read_program(folder / "graph.json")
JaxAdapter.info(cell)
adapter = JaxAdapter(program, cell)
random = np.random.default_rng(1)
for slot in range(2):
    inputs = random.uniform(-1, 1, program.training.values["inputs"].shape).astype(np.float32)
    adapter.stage(slot, inputs, random.integers(0, program.classes, program.labels).astype(np.int32))
rows = [(1e-3 if number < 40 else 1e-4, number) for number in range(1, 71)]
found = []
for whole in (True, False):
    adapter.set_state(read_tensors(folder / "parameters.safetensors"))
    if whole:
        adapter.block(1, rows)
    else:
        for place, (rate, number) in enumerate(rows):
            adapter.step((1 + place) % 2, rate, number)
    found.append((adapter.state(), adapter.loss()))
(one, loss), (other, last) = found
difference = max(float(np.abs(one[name] - other[name]).max()) for name in one)
print(json.dumps({"difference": difference, "losses": [loss, last], "settings": adapter.settings()}))
"""

# What asks for the version of cuDNN, by device; then with one that is missing.
CUDNN = """
import json, sys
from pathlib import Path
from unittest import mock
sys.path[:0] = sys.argv[1:]
import jax_settings
from assay_worker import Cell
asked = {}
for device in ("cpu", "cuda"):
    for error in (None, RuntimeError("no cuDNN")):
        found = mock.Mock()
        found.cudnn_get_version.side_effect = error
        axes = {"device": device, "precision": "bf16", "mode": "jit", "threads": 1, "deterministic": False}
        with mock.patch.object(jax_settings, "cuda_versions", found):
            jax_settings.configure(Cell(Path(), axes))
        asked[device] = found.cudnn_get_version.call_count
print(json.dumps(asked))
"""


def test_cudnn_is_loaded_before_the_hello_names_the_libraries() -> None:
    command = [JAX.python, "-c", CUDNN, JAX.worker.parent, ROOT / "backends/python"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"cpu": 0, "cuda": 1}


def test_a_loop_of_steps_takes_those_of_numpy(make_cell: Any) -> None:
    folder = make_cell("convolutional", mode="scan", loader=TWO_SLOTS)
    answers, heard = JAX.ask(folder)
    assert heard[1]["settings"]["compiled_graphs"] == "1"
    assert_same(answers, ask_numpy(folder), 2e-5, 2e-6)


def test_a_loop_of_steps_draws_masks_in_each(make_cell: Any) -> None:
    folder = make_cell("dropping", {"kind": "adam", "epsilon": 1.0}, mode="scan", loader=TWO_SLOTS)
    answers, expected = JAX.ask(folder)[0], ask_numpy(folder)
    assert_computes_with_what_it_drew(take_what_dropout_drew(answers), folder)
    take_what_dropout_drew(expected)
    assert_same(answers, expected, 1e-3, 1e-3)


def test_a_block_has_the_bits_of_its_steps(make_cell: Any) -> None:
    folder = make_cell("mlp", mode="scan", loader=TWO_SLOTS)
    command = [JAX.python, "-c", BLOCKS, folder, JAX.worker.parent, ROOT / "backends/python"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["difference"] == 0
    assert found["losses"][0] == found["losses"][1]
    assert found["settings"]["compiled_graphs"] == "1", "one step and many are one executable"
