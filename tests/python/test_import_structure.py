"""What Assay writes as ONNX comes back as the same network, whatever the file calls its parts."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_import.importing import import_file
from assay_import.options import Options
from assay_import.structure import structure_of
from assay_worker.program import Graph, Program
from imported import imported, model, node, onnx_or_skip, ops_of, random
from network_interpreter import compute
from program import PROGRAM
from worker_under_test import ROOT

onnx = onnx_or_skip()
DATA = ROOT / "tests/import/data"  # made by tests/import/make_models.py

# The others are as these, with more parameters.
WORKLOADS = [
    *("mlp", "lenet5", "cnn", "resnet56", "resnet50", "resnet50_keras", "cifar10-cnn", "googlenet"),
    *("googlenet_bn", "lstm", "vit-tiny", "minilm", "nanogpt"),
]


def graph_of(workload: str) -> Graph:
    asked = [PROGRAM, "inspect", workload, "--graph", "--batch", "2"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    return Program.from_json(json.loads(done.stdout)).inference


def document_of(graph: Graph) -> dict[str, Any]:
    """Return a graph as it comes back: flatten is a reshape, tables are cut, and no two nodes share one."""
    inputs = graph.values["inputs"]
    tensors = {
        value.name: {"name": value.name, "shape": list(value.shape)}
        for role in ("parameter", "state")
        for value in graph.with_role(role)
    }
    nodes = []
    for each in graph.nodes:
        (name, *_), attributes, op = each.outputs, dict(each.attributes), each.op
        attributes.pop("training", None)
        shape = graph.values[name].shape
        if op in ("slice", "reshape") and each.inputs[0] in tensors:
            tensors[name] = {"name": name, "shape": list(shape)}
            continue
        if op == "flatten":
            op, attributes = "reshape", {"shape": [-1, math.prod(shape[1:])]}
        if op == "reshape" and shape[0] == inputs.shape[0]:
            attributes["shape"] = [-1, *shape[1:]]
        if op == "mean_pool" and not any(each.inputs[1:]):
            op, attributes = "reduce", {"kind": "mean", "axes": [1]}
        reads = [name and str(name) for name in each.inputs]
        for place, read in enumerate(reads):
            if read in tensors and graph.reads_of(read) > 1:
                reads[place] = f"{read} of {name}"
                tensors[f"{read} of {name}"] = tensors[read] | {"name": f"{read} of {name}"}
        nodes.append({"name": name, "op": op, "inputs": reads, "attributes": attributes})
    given = {"name": "inputs", "dtype": inputs.dtype, "shape": ["N", *inputs.shape[1:]]}
    return {
        "input": given,
        "output": graph.outputs["logits"],
        "tensors": list(tensors.values()),
        "nodes": nodes,
    }


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_workload_that_is_exported_comes_back(workload: str, tmp_path: Path) -> None:
    from assay_onnx.model import model_of

    graph = graph_of(workload)
    random_of = np.random.default_rng(1)
    weights = {
        value.name: random_of.random(value.shape, np.float32)
        for role in ("parameter", "state")
        for value in graph.with_role(role)
    }
    path = tmp_path / "model.onnx"
    path.write_bytes(model_of(graph, weights).SerializeToString())
    found = import_file(path, Options(free_batch=True))
    assert found.network is not None, found.gaps
    assert found.provenance["structure"] == structure_of(document_of(graph))


def branches(names: str, *, swapped: bool = False, tied: bool = False) -> Any:
    """Return relu(x v) + tanh(x w), with v twice if tied."""
    a, b, c, d = names.split()
    nodes = [
        node("MatMul", "x v", a),
        node("MatMul", "x v" if tied else "x w", b),
        node("Relu", a, c),
        node("Tanh", b, d),
        node("Add", f"{d} {c}" if swapped else f"{c} {d}", "y"),
    ]
    if swapped:
        nodes = [nodes[1], nodes[3], nodes[0], nodes[2], nodes[4]]
    weights = {"v": random(8, 4)} if tied else {"v": random(8, 4), "w": random(8, 4, seed=1)}
    return model(nodes, **weights)


def test_names_and_order_are_no_part_of_a_structure(tmp_path: Path) -> None:
    def of(made: Any) -> Any:
        return imported(tmp_path, made).provenance["structure"]

    first = of(branches("a b c d"))
    assert first == of(branches("p q r s", swapped=True))
    assert first != of(branches("a b c d", tied=True))


ENCODERS = [
    "encoder.pt2", "encoder-17-traced.onnx", "encoder-18-traced.onnx", "encoder-18.onnx", "encoder-23.onnx"
]  # fmt: skip


def test_both_exporters_of_torch_give_one_network(tmp_path: Path) -> None:
    """As .pt2, and as ONNX of three opsets. A parameter is a constant in a file of ONNX."""
    answers = np.load(DATA / "encoder.npz")
    structures = set()
    for name in ENCODERS:
        found = import_file(DATA / name, Options(train_constants=True))
        assert found.network, (name, found.gaps)
        assert {"padding_mask", "attention", "mean_pool"} <= set(ops_of(found)), name
        logits = compute(found.network.document, found.network.arrays(), answers["tokens"])
        assert np.abs(logits - answers["logits"]).max() < 1e-5, name
        structures.add(structure_of(found.network.document))
    assert len(structures) == 1
