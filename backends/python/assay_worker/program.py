"""The contents of graph.json as Python objects."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

SCHEMA = "assay-program/2"
DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8}
MOMENTS = {
    "adam": ("m", "v"),
    "adamw": ("m", "v"),
    "lazy_adam": ("m", "v"),
    "rmsprop": ("square",),
    "sgd": ("momentum",),
}
CLIP_EPSILON = 1e-6  # added to the norm of all gradients where they are clipped
LOSS = "softmax_cross_entropy"
# From these operands on, the operands of the op are masks: they have no gradient.
MASK_OPERANDS = {"attention": 3, "mean_pool": 1}
CAST = "/cast"  # after the name of a parameter: its copy in the type of matrix products


@dataclass(frozen=True)
class Value:
    """A value that is fed, persistent, or made by a node."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str  # "input", "label", "parameter", "state", "mask", "cache", "position", "intermediate"
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
    """The nodes are in an order in which they can run."""

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

    @property
    def input_elements(self) -> int:
        """The number of elements of all inputs together."""
        return sum(math.prod(value.shape) for value in self.with_role("input"))

    def unpack(self, fed: np.ndarray, samples: int = 1) -> dict[str, np.ndarray]:
        """Return views of the inputs, which follow each other in each sample; a single op has one."""
        rows, found, begin = fed.reshape(samples, -1), {}, 0
        for value in self.with_role("input"):
            end = begin + math.prod(value.shape) // samples
            part = rows[:, begin:end].reshape(value.shape)
            found[value.name] = part.astype(DTYPES[value.dtype], copy=False)
            begin = end
        return found

    def with_role(self, role: str) -> list[Value]:
        return [value for value in self.values.values() if value.role == role]

    def reads_of(self, name: str) -> int:
        """Return how often nodes read a value."""
        return sum(node.inputs.count(name) for node in self.nodes)

    def readers(self, node: Node) -> list[Node]:
        """Return the nodes that read the node's first result."""
        return [reader for reader in self.nodes if node.outputs[0] in reader.inputs]

    def feeds_only(self, node: Node, op: str) -> bool:
        """Whether every reader of the node's first result is such an op, and it is not an output."""
        kinds = {reader.op for reader in self.readers(node)}
        return kinds == {op} and node.outputs[0] not in self.outputs.values()


def with_casts(graph: Graph, operands: dict[str, slice]) -> Graph:
    """Return the graph whose nodes read `<parameter>/cast` in place of parameters at these operands of an op.

    The parameters of an inference do not change, so a backend makes their copies in the type of matrix
    products when they are set, and not in each step. What other nodes read, such as the table of an
    embedding, stays.
    """
    parameters = {value.name for value in graph.with_role("parameter")}

    def read(node: Node) -> Node:
        names = list(node.inputs)
        for place in range(len(names))[operands.get(node.op, slice(0))]:
            if names[place] in parameters:
                names[place] = f"{names[place]}{CAST}"
        return replace(node, inputs=tuple(names))

    return replace(graph, nodes=tuple(read(node) for node in graph.nodes))


def names_read(graphs: Collection[Graph]) -> list[str]:
    """Return the names that nodes read, each once, in their order."""
    names = (name for graph in graphs for node in graph.nodes for name in node.inputs if name is not None)
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Part:
    """Consecutive nodes of a graph."""

    nodes: tuple[Node, ...]
    reads: list[str]  # values that the nodes read and do not make
    gives: list[str]  # results that nodes of other parts read, outputs and updates
    again: bool  # whether the backward pass computes the other results again, instead of keeping them


Names = Sequence[str | None]


def last_reads(steps: Sequence[tuple[Names, Names]], kept: Collection[str]) -> list[list[str]]:
    """Return for each step the results of steps that it is the last to read, without those in `kept`.

    A step is the names that it reads and those of its results. Code that walks over the steps can then drop
    such a value, as a user's code does with a variable that it assigns again. Otherwise the memory of each
    value is in use until the end of the walk.
    """
    droppable = {name for _, results in steps for name in results} - {None, *kept}
    last = {name: number for number, (reads, _) in enumerate(steps) for name in reads}
    found: list[list[str]] = [[] for _ in steps]
    for name, number in last.items():
        if name is not None and name in droppable:
            found[number].append(name)
    return found


@dataclass(frozen=True)
class Optimizer:
    """The formulas are in docs/reference/protocol.md, "Optimizers"; the learning rate is in the schedule."""

    kind: str
    momentum: float
    decay: float
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    clip_norm: float = 0.0  # 0: gradients are not clipped

    @property
    def counts_steps(self) -> bool:
        """Whether the update corrects the moments by the step count."""
        return self.kind in ("adam", "adamw", "lazy_adam")

    @property
    def decay_is_coupled(self) -> bool:
        """Whether weight decay is added to the gradients."""
        return self.kind != "adamw"

    @property
    def moments(self) -> tuple[str, ...]:
        return () if self.kind == "sgd" and self.momentum == 0 else MOMENTS[self.kind]

    def decay_of(self, shape: Sequence[int]) -> float:
        """Return the weight decay of a parameter of that shape: only kernels have one."""
        return self.weight_decay if self.decays(shape) else 0.0

    @staticmethod
    def decays(shape: Sequence[int]) -> bool:
        """Whether a parameter of that shape is a kernel, so that weight decay applies."""
        return len(shape) >= 2

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
            clip_norm=json.get("clip_norm", 0.0),
        )


@dataclass(frozen=True)
class Decoding:
    """Task decode: the graph of a prompt, and that of one token after it, over the same caches."""

    prompt: int  # tokens
    prefill: Graph
    step: Graph

    @property
    def caches(self) -> list[Value]:
        return self.step.with_role("cache")

    @property
    def position(self) -> Value:
        """The place of the next token: i32 (1), 0 when a prompt begins."""
        (value,) = self.step.with_role("position")
        return value

    @staticmethod
    def from_json(json: dict[str, Any]) -> Decoding:
        return Decoding(json["prompt"], Graph.from_json(json["prefill"]), Graph.from_json(json["step"]))


@dataclass(frozen=True)
class Program:
    """A network in both modes, with one set of parameter names, and its optimizer; or a single op.

    A network that is only inferred has no training graph and no optimizer. What both graphs have (inputs,
    parameters, state) is read from `inference`.
    """

    kind: str  # "network" or "op"
    inference: Graph
    training_graph: Graph | None = None
    update_rule: Optimizer | None = None
    cotangents: dict[str, str] = field(default_factory=dict)  # for an op: output -> input with its gradient
    decoding: Decoding | None = None  # only for task decode
    # Of training: the number of the first node of each, and that of the node after its last.
    segments: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def from_json(json: dict[str, Any]) -> Program:
        return Program(
            json["kind"],
            Graph.from_json(json["inference"]),
            Graph.from_json(json["training"]) if "training" in json else None,
            Optimizer.from_json(json["optimizer"]) if "optimizer" in json else None,
            json.get("cotangents", {}),
            Decoding.from_json(json["decoding"]) if "decoding" in json else None,
            tuple((begin, end) for begin, end in json.get("segments", ())),
        )

    @property
    def is_op(self) -> bool:
        """A single op has no parameters, no loss and no optimizer; every operand is an input."""
        return self.kind == "op"

    @property
    def name(self) -> str:
        return self.inference.name

    @property
    def training(self) -> Graph:
        """The graph of task train. Raises ValueError if the program is only inferred."""
        if self.training_graph is None:
            raise ValueError(f"[{self.name}] the program has no training graph")
        return self.training_graph

    @property
    def optimizer(self) -> Optimizer:
        """The update rule of a network. Raises ValueError if nothing is trained."""
        if self.update_rule is None:
            raise ValueError(f"[{self.name}] the program has no optimizer")
        return self.update_rule

    def graph(self, task: str) -> Graph:
        """Return the forward graph of a task; for task decode, of all tokens of a sample at once."""
        return self.training if task == "train" else self.inference

    @property
    def differentiated(self) -> list[str]:
        """For an op: the inputs whose gradients a training step computes."""
        given = set(self.cotangents.values()) | {
            str(name)
            for node in self.training.nodes
            if node.op in MASK_OPERANDS
            for name in node.inputs[MASK_OPERANDS[node.op] :]
        }
        return [v.name for v in self.training.with_role("input") if v.dtype == "f32" and v.name not in given]

    def training_parts(self, results: Collection[str] = ()) -> list[Part]:
        """Return the segments of the training graph and what is between them, in order.

        `results` are given, too, if they are the results of nodes.
        """
        nodes = self.training.nodes
        cuts: list[tuple[int, int, bool]] = []
        for begin, end in (*self.segments, (len(nodes), len(nodes))):
            before = cuts[-1][1] if cuts else 0
            cuts += [(before, begin, False), (begin, end, True)]
        part_of = {
            name: k for k, (begin, end, _) in enumerate(cuts) for n in nodes[begin:end] for name in n.outputs
        }
        wanted = {*self.training.outputs.values(), *self.training.updates.values(), *results}
        parts = []
        for k, (begin, end, again) in enumerate(cuts):
            own = nodes[begin:end]
            read = {name: None for node in own for name in node.inputs if name and part_of.get(name) != k}
            others = {name for node in (*nodes[:begin], *nodes[end:]) for name in node.inputs}
            made = [name for node in own for name in node.outputs if name]
            given = [name for name in made if name in others or name in wanted]
            if own:
                parts.append(Part(own, list(read), given, again))
        return parts

    @property
    def parameters(self) -> list[Value]:
        return self.inference.with_role("parameter")

    @property
    def states(self) -> list[Value]:
        return self.inference.with_role("state")

    @property
    def masks(self) -> list[Value]:
        """The names of the dropouts' masks, in the order of their nodes."""
        graph = self.training_graph or self.inference
        read = [name for node in graph.nodes if node.op == "dropout" for name in node.inputs[1:]]
        return [graph.values[str(name)] for name in read]

    @property
    def batch(self) -> int:
        return 1 if self.is_op else self.inference.with_role("input")[0].shape[0]

    @property
    def packs_inputs(self) -> bool:
        """Whether inputs are f32, one after the other in each sample: see Graph.unpack()."""
        return self.is_op or len(self.inference.with_role("input")) > 1

    @property
    def labels(self) -> tuple[int, ...]:
        """The shape of the labels of a batch; where nothing is trained, labels are not read."""
        if self.is_op or self.training_graph is None:
            return (self.batch,)
        return self.training_graph.values["labels"].shape

    @property
    def classes(self) -> int:
        return self.inference.values[self.inference.outputs["logits"]].shape[-1]

    @property
    def generated(self) -> int:
        """Task decode: the number of tokens of a sample after its prompt; 0 without it."""
        if self.decoding is None:
            return 0
        return self.inference.values["inputs"].shape[-1] - self.decoding.prompt

    @property
    def ignored_label(self) -> int | None:
        """The label that the loss does not count."""
        nodes = self.training_graph.nodes if self.training_graph else []
        return next((node.attributes.get("ignored") for node in nodes if node.op == LOSS), None)


def required(operand: Value | None) -> Value:
    """Return a required operand of an op; raise ValueError if it is absent."""
    if operand is None:
        raise ValueError("[program] a node lacks an operand that its op needs")
    return operand


def read_program(path: Path) -> Program:
    """Read graph.json. Raises ValueError if this package does not know its schema."""
    document = json.loads(path.read_text())
    if document.get("schema") != SCHEMA:
        raise ValueError(f"{path}: schema {document.get('schema')!r}, this worker knows {SCHEMA!r}")
    return Program.from_json(document)
