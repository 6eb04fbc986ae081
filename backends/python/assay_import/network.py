"""network.json: a graph as the document that the conductor reads, and the proof that its batch is free."""

from __future__ import annotations

import hashlib
import json
import math
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import limits
from .errors import Refused
from .graph import Graph
from .options import BATCH
from .tensors import Tensor, same_values

SCHEMA = "assay-network/1"


@dataclass(frozen=True)
class Network:
    document: dict[str, Any]
    tensors: dict[str, Tensor]  # by the names of the document

    @property
    def text(self) -> bytes:
        return (json.dumps(self.document, ensure_ascii=False, indent=1, allow_nan=False) + "\n").encode()

    @property
    def digest(self) -> str:
        """Return the eight hexadecimal digits that name this network."""
        known = {key: value for key, value in self.document.items() if key != "description"}
        canonical = json.dumps(known, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:8]

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the tensors whose values are known."""
        return {name: tensor.constant.array for name, tensor in self.tensors.items() if tensor.is_written}


def one_line(text: str) -> str:
    """Return a text without control characters, short enough for a description."""
    shown = "".join("_" if unicodedata.category(c) in ("Cc", "Cs") else c for c in text)
    return shown.encode()[: limits.DESCRIPTION_BYTES].decode("utf-8", "ignore")


def valid_names(names: Iterable[str]) -> dict[str, str]:
    """Return for each name one that a network may have: short, without control characters, used once."""
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in names:
        if name in found:
            continue
        shown = "".join("_" if unicodedata.category(c) in ("Cc", "Cs") else c for c in name) or "_"
        short = shown
        while len(short.encode()) > limits.NAME_BYTES:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
            shown = shown[: len(shown) * 3 // 4]
            short = f"{shown}~{digest}"
        count, unique = 1, short
        while unique in used:
            count += 1
            unique = f"{short[:180]}.{count}"
        used.add(unique)
        found[name] = unique
    return found


def document_of(graph: Graph, tensors: list[Tensor], description: str) -> Network:
    """Write a graph whose nodes are all Assay's ops. Extents of reshapes are those of its batch."""
    (name, value), order = next(iter(graph.inputs.items())), list(graph.order())
    names = valid_names([name, *(tensor.name for tensor in tensors), *order])
    given: dict[str, Any] = {"name": names[name], "dtype": "i32" if value.dtype == "int" else "f32"}
    given["shape"] = [BATCH, *value.shape[1:]]
    if value.dtype == "int":
        given["below"] = rows_below(graph, name)
    document = {
        "schema": SCHEMA,
        "description": description,
        "input": given,
        "output": names[graph.output],
        "per_position": len(graph.known_shape(graph.output)) == 3,
        "tensors": [
            {
                "name": names[tensor.name],
                "shape": list(tensor.constant.array.shape),
                "role": tensor.role,
                "initializer": tensor.initializer,
            }
            for tensor in tensors
        ],
        "nodes": [node_of(graph, each, names) for each in order],
    }
    return Network(document, {names[tensor.name]: tensor for tensor in tensors})


def node_of(graph: Graph, name: str, names: dict[str, str]) -> dict[str, Any]:
    node = graph.nodes[name]
    inputs = [None if operand is None else names[operand] for operand in node.inputs]
    while inputs and inputs[-1] is None:
        inputs.pop()
    attributes = {key: plain(value) for key, value in node.attributes.items()}
    for key, value in attributes.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise Refused(f"the node '{names[name]}' has {key} = {value}: no backend defines that")
    return {"name": names[name], "op": node.op, "inputs": inputs, "attributes": attributes}


def plain(value: Any) -> Any:
    """Return a value that JSON has."""
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, (bool, str)):
        return value
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def rows_below(graph: Graph, name: str) -> int:
    """Return the number below which tokens are: the rows of the smallest table that they index."""
    rows = [
        graph.known_shape(str(node.inputs[1]))[0]
        for node in (graph.nodes[each] for each in graph.readers(name))
        if node.op == "embedding"
    ]
    if not rows:
        raise Refused(f"the input '{name}' has whole numbers, but they index no embedding")
    return min(rows)


def with_free_batch(a: Network, b: Network, batches: tuple[int, int]) -> Network:
    """Return the document for any batch, of those for two. Refuses what depends on the batch."""
    first, second = a.document, b.document
    if len(first["nodes"]) != len(second["nodes"]) or first["input"] != second["input"]:
        raise Refused(f"with a batch of {batches[0]} and of {batches[1]} the file is not the same network")
    for one, other in zip(first["nodes"], second["nodes"], strict=True):
        if {**one, "attributes": 0} != {**other, "attributes": 0}:
            raise dependent(one["name"], batches)
        if one["op"] == "reshape":
            shapes = one["attributes"]["shape"], other["attributes"]["shape"]
            one["attributes"]["shape"] = free_shape(one["name"], *shapes, batches)
        elif one["attributes"] != other["attributes"]:
            raise dependent(one["name"], batches)
    if first["tensors"] != second["tensors"]:
        raise Refused(
            "a constant of the file depends on the batch, which is not free: export it with a free batch"
        )
    for name, tensor in a.tensors.items():
        if not same_values(tensor.constant.array, b.tensors[name].constant.array):
            raise Refused(f"the constant '{name}' depends on the batch: export the model with a free batch")
    if len(a.text) > limits.NETWORK_BYTES:
        raise Refused(f"network.json would have {len(a.text)} bytes; the limit is {limits.NETWORK_BYTES}")
    return a


def free_shape(name: str, one: list[int], other: list[int], batches: tuple[int, int]) -> list[int]:
    if len(one) != len(other):
        raise dependent(name, batches)
    found = [x if x == y else -1 for x, y in zip(one, other, strict=True)]
    scaled = all(x == y or x * batches[1] == y * batches[0] for x, y in zip(one, other, strict=True))
    if found.count(-1) > 1 or not scaled:
        raise dependent(name, batches)
    return found


def dependent(name: str, batches: tuple[int, int]) -> Refused:
    return Refused(
        f"the node '{name}' differs between a batch of {batches[0]} and of {batches[1]} in more than that: "
        "export the model with a free batch (torch.export: dynamic_shapes, torch.onnx.export: dynamic_axes)"
    )
