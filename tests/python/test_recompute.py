"""Activations that the backward pass computes again: the same answers, from less that is kept."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from assay_worker.program import Program, read_program
from assay_worker.tensors import Tensors
from framework import (
    BY_NAME,
    Framework,
    ask_numpy,
    assert_computes_with_what_it_drew,
    assert_same,
    take_what_dropout_drew,
)
from worker_under_test import ROOT

TORCH, JAX, TENSORFLOW, MXNET = (BY_NAME[name] for name in ("torch", "jax", "tensorflow", "mxnet"))
ON_SEGMENTS = [
    pytest.param(framework, marks=framework.skip, id=framework.name) for framework in (TORCH, JAX, TENSORFLOW)
]
SEGMENTS = {
    "convolutional": [[0, 2], [2, 5]],
    "normalised": [[0, 3], [3, 5]],
    "dropping": [[0, 3], [4, 7]],
    "encoder": [[1, 8], [8, 14]],
}


def with_segments(folder: Path, segments: list[list[int]]) -> Path:
    graph = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps(graph | {"segments": segments}))
    return folder


def program_of(make_cell: Any, network: str) -> Program:
    return read_program(with_segments(make_cell(network), SEGMENTS[network]) / "graph.json")


def test_parts_are_the_segments_and_what_is_between_them(make_cell: Any) -> None:
    program = program_of(make_cell, "convolutional")
    parts = program.training_parts(["conv2"])
    assert [node for part in parts for node in part.nodes] == list(program.training.nodes)
    assert [part.again for part in parts] == [True, True, False]
    assert parts[0].reads == ["inputs", "conv1.weight", "conv1.bias"]
    assert parts[0].gives == ["relu1"]
    assert parts[1].gives == ["conv2", "pool1"]
    assert parts[2].gives == ["fc1", "loss"]


def test_updates_are_given_by_their_part(make_cell: Any) -> None:
    first = program_of(make_cell, "normalised").training_parts()[0]
    assert first.gives == ["bn1.new_running_mean", "bn1.new_running_variance", "relu1"]


def ask_twice(framework: Framework, folder: Path, network: str) -> tuple[Tensors, Tensors]:
    """Return a framework's answers with recomputation and without."""
    plain = framework.ask(folder)[0]
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"recompute": "sqrt"}))
    return framework.ask(with_segments(folder, SEGMENTS[network]))[0], plain


@pytest.mark.parametrize("framework", ON_SEGMENTS)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("network", ["convolutional", "normalised", "encoder"])
def test_answers_are_those_without_it(
    framework: Framework, make_cell: Any, network: str, compiled: bool
) -> None:
    if framework is TENSORFLOW and network == "normalised":
        pytest.skip("refused: tf.recompute_grad would update running statistics twice")
    mode = framework.compiled if compiled else "eager"
    folder = make_cell(network, {"kind": "adam", "epsilon": 1e-3}, mode=mode)
    assert_same(*ask_twice(framework, folder, network), 5e-5, 5e-6)


@pytest.mark.parametrize("framework", ON_SEGMENTS[:2])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_dropout_has_the_same_mask_both_times(framework: Framework, make_cell: Any, compiled: bool) -> None:
    mode = framework.compiled if compiled else "eager"
    folder = make_cell("dropping", {"kind": "adam", "epsilon": 1.0}, mode=mode, recompute="sqrt")
    answers = framework.ask(with_segments(folder, SEGMENTS["dropping"]))[0]
    assert_computes_with_what_it_drew(take_what_dropout_drew(answers), folder)
    expected = ask_numpy(folder)
    take_what_dropout_drew(expected)
    assert_same(answers, expected, 1e-3, 1e-3)


def counted(framework: Framework, script: str, folder: Path) -> list[int]:
    """Return the numbers that a script prints of the convolutional network, with its segments and without."""
    plain, cut = folder / "plain.json", folder / "graph.json"
    shutil.copy(cut, plain)
    with_segments(folder, SEGMENTS["convolutional"])
    command = [framework.python, "-c", script, ROOT, cut, plain]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


TORCH_KEEPS = """
import sys
for part in ("backends/python", "backends/torch"):
    sys.path.insert(0, f"{sys.argv[1]}/{part}")
import torch
from pathlib import Path
from assay_worker.program import read_program
from torch_network import Network
for graph in sys.argv[2:]:
    kept = {}
    def keep(tensor):
        kept[tensor.data_ptr()] = tensor.nbytes
        return tensor
    network = Network(read_program(Path(graph)), "train")
    values = torch.randn(6, 2, 8, 8), torch.zeros(6, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss, _ = network(*values)
    loss.backward()
    print(sum(kept.values()))
"""


@TORCH.skip
def test_torch_keeps_less(make_cell: Any) -> None:
    kept, kept_of_all = counted(TORCH, TORCH_KEEPS, make_cell("convolutional"))
    assert kept < 0.8 * kept_of_all


JAX_RUNS = """
import sys
for part in ("backends/python", "backends/jax"):
    sys.path.insert(0, f"{sys.argv[1]}/{part}")
import jax, jax.numpy as jnp
from pathlib import Path
from assay_worker.program import read_program
from jax_network import Form, Network
for graph in sys.argv[2:]:
    program = read_program(Path(graph))
    network = Network(program, Form(jnp.float32), "train")
    fed = network._fed(program, program.training)
    inexact = {name: value for name, value in fed.items() if value.dtype == jnp.float32}
    def loss(values, labels):
        return network.run({**values, "labels": labels})["loss"]
    traced = str(jax.make_jaxpr(jax.grad(loss))(inexact, fed["labels"]))
    print(traced.count("conv_general_dilated"))
"""


@JAX.skip
def test_jax_convolves_again(make_cell: Any) -> None:
    convolutions, once = counted(JAX, JAX_RUNS, make_cell("convolutional"))
    assert convolutions > once
