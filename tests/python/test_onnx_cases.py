"""ONNX's own test cases of attention, the norms, GELU and rotary embeddings, on our own backends.

They go through the protocol. Those of rotary embeddings have the cosines and sines that our op computes, in
place of drawn ones: tests/onnx/node_cases.py.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import Tensors, read_tensors, write_tensors
from conversation import talk
from framework import ENVIRONMENTS
from program import BUILD
from worker_under_test import ROOT, exam_subject

Array = np.ndarray
PYTHON = ENVIRONMENTS / "onnx/bin/python"
FOLDER = ROOT / "tests/onnx"
# The precision that has operands of a type, and the largest difference: of two roundings to bf16.
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}
TOLERANCES = {"fp32": (1e-5, 1e-6), "bf16": (2**-7, 2**-8)}
WORKERS = {name: BUILD / f"backends/{name}/assay-worker-{name}" for name in ("reference", "onednn")}

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="ONNX is not set up: scripts/setup --onnx")


@dataclass(frozen=True)
class Case:
    """One of ONNX's cases: the arrays of its operands and its results, by their names in ONNX."""

    name: str
    op: str
    attributes: dict[str, Any]
    inputs: dict[str, Array]
    outputs: dict[str, Array]
    types: list[str]


@dataclass(frozen=True)
class Ours:
    """The same as a single op of ours."""

    op: str
    operands: dict[str, Array]
    attributes: dict[str, Any]
    results: dict[str, Array]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    out = tmp_path_factory.mktemp("onnx") / "cases.npz"
    subprocess.run([PYTHON, FOLDER / "node_cases.py", out], check=True)
    with np.load(out) as arrays:
        found = []
        for case in json.loads(str(arrays["cases"])):
            named = {
                kind: {
                    name: arrays[key]
                    for i, name in enumerate(case[names])
                    if (key := f"{case['name']}/{kind}/{i}") in arrays
                }
                for kind, names in (("in", "inputs"), ("out", "outputs"))
            }
            fields = (case["name"], case["op"], case["attributes"], named["in"], named["out"], case["types"])
            found.append(Case(*fields))
        return found


def outside(case: Case) -> str:
    """Say why a case is not in our contract; empty if it is."""
    a = case.attributes
    if case.types[0] not in PRECISIONS:
        return f"operands of {case.types[0]}"
    if case.op != "Attention":
        return ""
    if a.get("softcap"):
        return "softcap"
    if max(a.get("left_window_size", -1), a.get("right_window_size", -1)) >= 0:
        return "a window"
    if {"past_key", "nonpad_kv_seqlen"} & set(case.inputs):
        return "a cache of keys and values"
    if len(case.outputs) > 1:
        return "the scores are a result"
    q, v = heads(case, "Q"), heads(case, "V")
    return "values of another width than queries" if v.shape[3] != q.shape[3] else ""


def heads(case: Case, name: str) -> Array:
    """Return queries, keys or values as (N, S, H, D)."""
    array = case.inputs[name]
    if array.ndim == 4:
        return array.swapaxes(1, 2)
    count = case.attributes["q_num_heads" if name == "Q" else "kv_num_heads"]
    return array.reshape(*array.shape[:2], count, -1)


def ours(case: Case) -> Ours:
    return {
        "Attention": attention,
        "Gelu": gelu,
        "LayerNormalization": layer_norm,
        "RMSNormalization": rms_norm,
        "RotaryEmbedding": rotary,
    }[case.op](case)


def attention(case: Case) -> Ours:
    operands = {name: heads(case, name.upper()) for name in "qkv"}
    queries, keys = operands["q"].shape[1], operands["k"].shape[1]
    causal = bool(case.attributes.get("is_causal", 0))
    mask = case.inputs.get("attn_mask")
    if mask is not None and mask.dtype == np.bool_:
        mask = np.where(mask, np.float32(0), np.float32(-np.inf))
    if causal and queries != keys:
        # ONNX's first query is at the first key, and ours ends at the last one: so it is a mask.
        causal = False
        seen = np.where(np.tri(queries, keys, dtype=bool), np.float32(0), np.float32(-np.inf))
        mask = seen if mask is None else mask + seen
    if mask is not None:
        operands["mask"] = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    y = case.outputs["Y"]
    y = y.swapaxes(1, 2) if y.ndim == 4 else y.reshape(operands["q"].shape)
    attributes = {
        "causal": causal,
        "scale": float(case.attributes.get("scale", 0)),
    }
    return Ours("attention", operands, attributes, {"y": y})


def gelu(case: Case) -> Ours:
    approximate = case.attributes.get("approximate", "none")
    return Ours("gelu", {"x": case.inputs["x"]}, {"approximate": approximate}, {"y": case.outputs["y"]})


def rows_of(case: Case) -> tuple[int, ...]:
    """Return the dimensions before those that are normalised, which we have as the last one."""
    shape = case.inputs["X"].shape
    return shape[: case.attributes.get("axis", -1) % len(shape)] or (1,)


def layer_norm(case: Case) -> Ours:
    rows = rows_of(case)
    operands = {
        "x": case.inputs["X"].reshape(*rows, -1),
        "scale": case.inputs["W"].reshape(-1),
        "shift": case.inputs["B"].reshape(-1),
    }
    results = {"y": case.outputs["Y"].reshape(*rows, -1)}
    results["mean"] = case.outputs["Mean"].reshape(rows)
    results["inverse_deviation"] = case.outputs["InvStdDev"].reshape(rows)
    return Ours("layer_norm", operands, {"epsilon": case.attributes.get("epsilon", 1e-5)}, results)


def rms_norm(case: Case) -> Ours:
    rows = rows_of(case)
    operands = {"x": case.inputs["X"].reshape(*rows, -1), "scale": case.inputs["W"].reshape(-1)}
    y = case.outputs["Y"].reshape(*rows, -1)
    return Ours("rms_norm", operands, {"epsilon": case.attributes.get("epsilon", 1e-5)}, {"y": y})


def rotary(case: Case) -> Ours:
    """Compare the part of each head that is turned: ONNX copies the rest."""
    x, y = case.inputs["input"], case.outputs["output"]
    if x.ndim == 4:
        x, y = x.swapaxes(1, 2), y.swapaxes(1, 2)
    else:
        x, y = (array.reshape(*x.shape[:2], case.attributes["num_heads"], -1) for array in (x, y))
    width = case.attributes.get("rotary_embedding_dim") or x.shape[3]
    x, y = x[..., :width], y[..., :width]
    if "position_ids" in case.inputs:
        # Ours are 0, 1, 2, ...: each token is a sample of its own, with zeros at the other positions.
        positions = case.inputs["position_ids"].reshape(-1)
        x, y = (alone_at(positions, array.reshape(-1, *array.shape[2:])) for array in (x, y))
    attributes = {"base": 10000.0, "interleaved": bool(case.attributes.get("interleaved", 0))}
    return Ours("rotary", {"x": np.ascontiguousarray(x)}, attributes, {"y": y})


def alone_at(positions: Array, tokens: Array) -> Array:
    """Return (N, S, H, D) from tokens (N, H, D): token n at its position of sample n, and zeros elsewhere."""
    samples = np.zeros((len(tokens), positions.max() + 1, *tokens.shape[1:]), tokens.dtype)
    samples[np.arange(len(tokens)), positions] = tokens
    return samples


# How many results an op has, with those that it saves for its gradient.
RESULTS = {"attention": 2, "gelu": 1, "layer_norm": 3, "rms_norm": 2, "rotary": 1}


def lay_out(folder: Path, op: Ours, backend: str, precision: str) -> Path:
    """Write the cell folder of the op, with its exam, as the conductor does."""
    made = {name: name if name == "y" else f"y.{name}" for name in op.results}
    absent = [None] * (RESULTS[op.op] - len(made))
    graph = {
        "name": f"op/{op.op}",
        "values": [
            {"name": name, "dtype": "f32", "shape": list(array.shape), "role": role}
            for role, arrays in (
                ("input", op.operands),
                ("intermediate", {made[name]: array for name, array in op.results.items()}),
            )
            for name, array in arrays.items()
        ],
        "nodes": [
            {
                "name": "y",
                "op": op.op,
                "inputs": list(op.operands),
                "outputs": [*made.values(), *absent],
                "attributes": op.attributes,
            }
        ],
        "outputs": made,
        "updates": {},
    }
    program = {
        "schema": "assay-program/2",
        "kind": "op",
        "inference": graph,
    }
    request = {
        "protocol": 1,
        "backend": backend,
        "workload": f"op/{op.op}",
        "task": "infer",
        "mode": "graph",
        "precision": precision,
        "batch": 1,
        "threads": 1,
        "op": {"size": "1", "cache": "warm"},
        "clock": {"kind": "steps"},
    }
    (folder / "check").mkdir(parents=True)
    (folder / "results").mkdir()
    (folder / "request.json").write_text(json.dumps(request))
    (folder / "graph.json").write_text(json.dumps(program))
    flat = np.concatenate([np.asarray(operand, "f4").reshape(-1) for operand in op.operands.values()])
    np.save(folder / "check/inputs.npy", flat[None])
    np.save(folder / "check/labels.npy", np.zeros(1, "i4"))
    np.save(folder / "check/schedule.npy", np.array([[0.0, 1], [0.0, 1]]))
    write_tensors(folder / "parameters.safetensors", {})
    write_tensors(folder / "check/state.safetensors", {})
    batches = {"batch": 1, "distinct": 1, "row_of": [0], "slots": [0]}
    (folder / "check/batches.json").write_text(json.dumps(batches))
    (folder / "check/exam.json").write_text(json.dumps(exam_subject(program, "infer")))
    return folder


def answers(folder: Path, worker: Path) -> Tensors:
    heard, _ = talk(folder, ["compile", "verify", "quit"], [worker])
    assert [event["event"] for event in heard] == ["hello", "compiled", "verified", "bye"], heard
    found = read_tensors(folder / "results/verify.safetensors")
    return {name.removeprefix("result/"): tensor[0] for name, tensor in found.items()}


@pytest.mark.parametrize("backend", WORKERS)
def test_the_cases_of_our_contract_agree(cases: list[Case], backend: str, tmp_path: Path) -> None:
    worker = WORKERS[backend]
    if not worker.exists():
        pytest.skip(f"{worker} is not there: cmake --build {BUILD}")
    agreed = 0
    for case in cases:
        if outside(case):
            continue
        op = ours(case)
        precision = PRECISIONS[case.types[0]]
        rtol, atol = TOLERANCES[precision]
        found = answers(lay_out(tmp_path / case.name, op, backend, precision), worker)
        for name, expected in op.results.items():
            assert found[name].shape == expected.shape, case.name
            np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=atol, err_msg=case.name)
        agreed += 1
    assert agreed == 79


def test_the_cases_outside_of_our_contract_are_listed_by_name(cases: list[Case]) -> None:
    listed = (FOLDER / "outside.txt").read_text().splitlines()
    assert [f"{case.name}: {reason}" for case in cases if (reason := outside(case))] == listed
