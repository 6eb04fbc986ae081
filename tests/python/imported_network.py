"""A small network of a user: a convolution, a batch norm, a dropout and a constant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from assay_worker.tensors import write_tensors


def tensor(name: str, shape: list[int], role: str, initializer: str) -> dict[str, Any]:
    return {"name": name, "shape": shape, "role": role, "initializer": initializer}


def node(name: str, op: str, inputs: list[str | None], **attributes: Any) -> dict[str, Any]:
    return {"name": name, "op": op, "inputs": inputs, "attributes": attributes}


def network(frozen: bool = False) -> dict[str, Any]:
    """Frozen: the weight of the convolution and the bias of the batch norm are constants."""
    role = "constant" if frozen else "parameter"
    return {
        "schema": "assay-network/1",
        "description": "a small network",
        "input": {"name": "images:0", "dtype": "f32", "shape": ["N", 1, 6, 6]},
        "output": "fc",
        "tensors": [
            tensor("/conv/weight", [4, 1, 3, 3], role, "he_normal"),
            tensor("bn.weight", [4], "parameter", "ones"),
            tensor("bn.bias", [4], role, "zeros"),
            tensor("bn.running_mean", [4], "state", "zeros"),
            tensor("bn.running_var", [4], "state", "ones"),
            tensor("offset", [64], "constant", "zeros"),
            tensor("fc.weight", [3, 64], "parameter", "glorot_uniform"),
            tensor("fc.bias", [3], "parameter", "zeros"),
        ],
        "nodes": [
            node("/conv/out", "convolution", ["images:0", "/conv/weight", None], stride=1, padding=0),
            node(
                "bn",
                "batch_norm",
                ["/conv/out", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"],
                epsilon=1e-5,
                momentum=0.9,
            ),
            node("relu", "relu", ["bn"]),
            node("flat", "reshape", ["relu"], shape=[-1, 64]),
            node("shifted", "add", ["flat", "offset"]),
            node("drop", "dropout", ["shifted"], rate=0.25),
            node("fc", "linear", ["drop", "fc.weight", "fc.bias"]),
        ],
    }


def dropping() -> dict[str, Any]:
    """A network with a dropout between two layers."""
    return {
        "schema": "assay-network/1",
        "description": "two layers with a dropout",
        "input": {"name": "images", "dtype": "f32", "shape": ["N", 24]},
        "output": "fc2",
        "tensors": [
            tensor("fc1.weight", [64, 24], "parameter", "he_normal"),
            tensor("fc1.bias", [64], "parameter", "zeros"),
            tensor("fc2.weight", [5, 64], "parameter", "he_normal"),
            tensor("fc2.bias", [5], "parameter", "zeros"),
        ],
        "nodes": [
            node("fc1", "linear", ["images", "fc1.weight", "fc1.bias"]),
            node("relu", "relu", ["fc1"]),
            node("drop", "dropout", ["relu"], rate=0.4),
            node("fc2", "linear", ["drop", "fc2.weight", "fc2.bias"]),
        ],
    }


def reader() -> dict[str, Any]:
    """A network with a label of five classes at each of four rows of an image, and trained slopes."""
    return {
        "schema": "assay-network/1",
        "description": "a small reader",
        "input": {"name": "images", "dtype": "f32", "shape": ["N", 1, 4, 6]},
        "output": "fc",
        "per_position": True,
        "tensors": [
            tensor("conv.weight", [3, 1, 3, 3], "parameter", "he_normal"),
            tensor("slope", [3], "parameter", "uniform:0.25"),
            tensor("fc.weight", [5, 18], "parameter", "glorot_uniform"),
            tensor("fc.bias", [5], "parameter", "zeros"),
        ],
        "nodes": [
            node("conv", "convolution", ["images", "conv.weight", None], stride=1, padding=1),
            node("prelu", "prelu", ["conv", "slope"]),
            node("rows", "transpose", ["prelu"], permutation=[0, 2, 1, 3]),
            node("flat", "reshape", ["rows"], shape=[-1, 4, 18]),
            node("fc", "linear", ["flat", "fc.weight", "fc.bias"]),
        ],
    }


def weights_of(document: dict[str, Any], seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    drawn = {
        each["name"]: random.normal(0, 0.5, each["shape"]).astype(np.float32) for each in document["tensors"]
    }
    if "bn.running_var" in drawn:
        drawn["bn.running_var"] = np.abs(drawn["bn.running_var"]) + np.float32(0.5)
    return drawn


def write_folder(folder: Path, document: dict[str, Any], seed: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "network.json").write_text(json.dumps(document))
    write_tensors(folder / "weights.safetensors", weights_of(document, seed))
    return folder
