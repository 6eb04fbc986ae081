"""graph.json as Python sees it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = "assay-program/1"
MOMENTS = {"adam": ("m", "v"), "lazy_adam": ("m", "v"), "rmsprop": ("square",), "sgd": ("momentum",)}


@dataclass(frozen=True)
class Value:
    """What is fed, persistent, or made by a node."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str  # "input", "label", "parameter", "state", "mask", "intermediate"
    initializer: str = ""


@dataclass(frozen=True)
class Node:
    """One op; an absent optional operand or result is None."""

    name: str
    op: str
    inputs: tuple[str | None, ...]
    outputs: tuple[str | None, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class Graph:
    """Nodes stand in an order in which they can run."""

    name: str
    values: dict[str, Value]
    nodes: tuple[Node, ...]
    outputs: dict[str, str]
    updates: dict[str, str]

    @staticmethod
    def from_json(json: dict[str, Any]) -> Graph:
        values = [
            Value(v["name"], v["dtype"], tuple(v["shape"]), v["role"], v.get("initializer", ""))
            for v in json["values"]
        ]
        nodes = [
            Node(n["name"], n["op"], tuple(n["inputs"]), tuple(n["outputs"]), n.get("attributes", {}))
            for n in json["nodes"]
        ]
        return Graph(
            json["name"], {v.name: v for v in values}, tuple(nodes), json["outputs"], json["updates"]
        )

    def with_role(self, role: str) -> list[Value]:
        return [value for value in self.values.values() if value.role == role]


@dataclass(frozen=True)
class Optimizer:
    """The forms are those of harness/graph/program.hpp; the learning rate is in the schedule."""

    kind: str
    momentum: float
    decay: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float

    @property
    def moments(self) -> tuple[str, ...]:
        return () if self.kind == "sgd" and self.momentum == 0 else MOMENTS[self.kind]

    def decay_of(self, shape: Sequence[int]) -> float:
        """Return what weight_decay is for a parameter of that shape: kernels alone have it."""
        return self.weight_decay if len(shape) >= 2 else 0.0

    @staticmethod
    def from_json(json: dict[str, Any]) -> Optimizer:
        return Optimizer(
            kind=json["kind"],
            momentum=json.get("momentum", 0.9),
            decay=json.get("decay", 0.9),
            beta1=json.get("beta1", 0.9),
            beta2=json.get("beta2", 0.999),
            epsilon=json.get("epsilon", 1e-8),
            weight_decay=json.get("weight_decay", 0.0),
        )


@dataclass(frozen=True)
class Program:
    """The network in both modes, with one set of parameter names, and its optimizer."""

    training: Graph
    inference: Graph
    optimizer: Optimizer

    @property
    def parameters(self) -> list[Value]:
        return self.training.with_role("parameter")

    @property
    def states(self) -> list[Value]:
        return self.training.with_role("state")

    @property
    def masks(self) -> list[Value]:
        """Those of the dropouts, in the order of their nodes."""
        read = [name for node in self.training.nodes if node.op == "dropout" for name in node.inputs[1:]]
        return [self.training.values[str(name)] for name in read]

    @property
    def batch(self) -> int:
        return self.training.values["inputs"].shape[0]

    @property
    def classes(self) -> int:
        return self.inference.values[self.inference.outputs["logits"]].shape[1]


def read_program(path: Path) -> Program:
    """Raise ValueError when the schema is not the one that this package knows."""
    document = json.loads(path.read_text())
    if document.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {document.get('schema')!r}, this worker knows {SCHEMA!r}")
    return Program(
        Graph.from_json(document["training"]),
        Graph.from_json(document["inference"]),
        Optimizer.from_json(document["optimizer"]),
    )
