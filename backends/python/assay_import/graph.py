"""A network while it is imported: Assay's ops, and ops in parts that the lifts look for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from . import limits
from .errors import Refused
from .shapes import Shape, shape_of

MISSING = "?"  # the op of a node that no op of Assay computes
NUMPY_TYPES = {"f32": np.float32, "int": np.int64, "bool": np.bool_}  # of the dtypes of values


@dataclass(frozen=True)
class Source:
    """The node of the file from which a node comes."""

    op: str
    name: str


@dataclass
class Node:
    """A node is named after its first result, the only one that is read."""

    op: str
    inputs: list[str | None]
    attributes: dict[str, Any]
    shape: Shape | None  # unknown after a missing op
    dtype: str
    source: Source


@dataclass(frozen=True)
class Constant:
    """A tensor of the file, or one that was computed from tensors of the file."""

    array: np.ndarray
    role: str = ""  # "parameter", "state" or "constant" if the file says so
    original: str = ""  # the tensor of the file that has these values
    turned: bool = False  # its transposed values
    is_filled: bool = False  # every element is the same by construction: it tells nothing


@dataclass(frozen=True)
class Input:
    dtype: str
    shape: Shape


@dataclass
class Graph:
    """Values are known by name: inputs, constants, and results of nodes."""

    batch: int
    inputs: dict[str, Input] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    nodes: dict[str, Node] = field(default_factory=dict)
    output: str = ""
    neutral: dict[str, int] = field(default_factory=dict)  # tensors of the file that a lift took to be 1 or 0
    _derived: dict[tuple[str, bool, str, bool], str] = field(default_factory=dict)
    _readers: dict[str, list[str]] | None = None

    def add(
        self,
        op: str,
        inputs: Sequence[str | None],
        name: str,
        source: Source,
        dtype: str = "f32",
        **attributes: Any,
    ) -> str:
        """Add a node, and return the name of its result. Raises Missing if the operands do not fit."""
        operands = [name for name in inputs if name is not None]
        shapes = [self.shape(operand) for operand in operands]
        known = [shape for shape in shapes if shape is not None]
        shape = shape_of(op, known, attributes) if len(known) == len(shapes) else None
        if op == "reshape" and shape is not None:
            attributes["shape"] = list(shape)
        return self.put(name, Node(op, list(inputs), attributes, shape, dtype, source))

    def put(self, name: str, node: Node) -> str:
        """Add a node with a known shape, or put it in the place of the one with this name."""
        check_shape(name, node.shape)
        self.nodes[name] = node
        self._readers = None
        return name

    def hold(self, name: str, constant: Constant) -> str:
        """Add a constant under this name, or under one like it."""
        if self.constants.get(name) is not constant:
            name = self.fresh(name)
            self.constants[name] = constant
        return name

    def derive(self, name: str, suffix: str, array: np.ndarray, **changes: Any) -> str:
        """Return a constant that is computed from another.

        If one has the same values of the file already, it is that: a weight that two nodes share stays one.
        """
        origin = self.constants[name]
        changed = replace(origin, array=array, **{"original": "", "turned": False, **changes})
        key = (changed.original, changed.turned, changed.role, changed.is_filled)
        for other in (changed.original, self._derived.get(key, "")) if changed.original else ():
            held = self.constants.get(other)
            if held is None or key != (held.original, held.turned, held.role, held.is_filled):
                continue
            if held.array.dtype == array.dtype and np.array_equal(held.array, array):
                return other
        self._derived[key] = made = self.hold(f"{name}{suffix}", changed)
        return made

    def fresh(self, name: str) -> str:
        """Return this name, or one like it that no value has."""
        count, found = 1, name
        while found in self.nodes or found in self.constants or found in self.inputs:
            count += 1
            found = f"{name}.{count}"
        return found

    def shape(self, name: str) -> Shape | None:
        if name in self.constants:
            return self.constants[name].array.shape
        return self.inputs[name].shape if name in self.inputs else self.nodes[name].shape

    def known_shape(self, name: str) -> Shape:
        shape = self.shape(name)
        assert shape is not None  # only nodes after a missing op have none, and these are not lifted
        return shape

    def dtype(self, name: str) -> str:
        if name in self.constants:
            return dtype_of(self.constants[name].array.dtype)
        return self.inputs[name].dtype if name in self.inputs else self.nodes[name].dtype

    def array(self, name: str | None) -> np.ndarray | None:
        """Return the elements of a constant, and None for another value."""
        return self.constants[name].array if name in self.constants and name is not None else None

    def scalar(self, name: str | None) -> float | None:
        """Return the one element of a constant; None if it has more, or is a trained parameter."""
        array = self.array(name)
        if name is None or array is None or array.size != 1 or self.constants[name].role == "parameter":
            return None
        return float(array.reshape(-1)[0])

    def node(self, name: str | None, *ops: str) -> Node | None:
        """Return the node that makes a value if it has one of these ops."""
        found = self.nodes.get(name) if name is not None else None
        return found if found is not None and (not ops or found.op in ops) else None

    def readers(self, name: str) -> list[str]:
        """Return the nodes that read a value, each as often as it does."""
        if self._readers is None:
            self._readers = {}
            for reader, node in self.nodes.items():
                for operand in node.inputs:
                    if operand is not None:
                        self._readers.setdefault(operand, []).append(reader)
        return self._readers.get(name, [])

    def only_reader(self, name: str) -> str | None:
        """Return the node that reads a value if it is the only one, and the value is not the output."""
        readers = self.readers(name)
        return readers[0] if len(readers) == 1 and name != self.output else None

    def replace(self, name: str, op: str, inputs: Sequence[str | None], **attributes: Any) -> list[str]:
        """Compute a value in another way. Returns the nodes that nothing reads any more."""
        old = self.nodes[name]
        shape = shape_of(op, [self.known_shape(each) for each in inputs if each is not None], attributes)
        assert shape == old.shape, (name, op, shape, old.shape)
        self.put(name, Node(op, list(inputs), attributes, shape, old.dtype, old.source))
        return self._drop(old.inputs)

    def substitute(self, name: str, other: str) -> list[str]:
        """Read another value in place of a node's. Returns the nodes that nothing reads any more."""
        for reader in set(self.readers(name)):
            node = self.nodes[reader]
            node.inputs = [other if operand == name else operand for operand in node.inputs]
        if self.output == name:
            self.output = other
        self._readers = None
        return self._drop([name])

    def _drop(self, names: Sequence[str | None]) -> list[str]:
        removed = []
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in self.nodes and name is not None and not self.readers(name) and name != self.output:
                stack += self.nodes.pop(name).inputs
                self._readers = None
                removed.append(name)
        return removed

    def order(self) -> Iterator[str]:
        """Go through the nodes that the output needs, operands first."""
        done: set[str] = set()
        path: set[str] = set()
        stack = [(self.output, False)]
        while stack:
            name, is_ready = stack.pop()
            if is_ready:
                done.add(name)
                path.discard(name)
                yield name
                continue
            if name in done or name not in self.nodes:
                continue
            if name in path:
                raise Refused(
                    f"the file has a cycle through '{name}': it cannot be computed; export it again"
                )
            path.add(name)
            stack.append((name, True))
            operands = [operand for operand in self.nodes[name].inputs if operand is not None]
            stack.extend((operand, False) for operand in reversed(operands) if operand not in done)

    def sweep(self) -> list[str]:
        """Remove what the output does not need, and put the nodes in order. Returns what was removed."""
        kept = {name: self.nodes[name] for name in self.order()}
        removed = [name for name in self.nodes if name not in kept]
        self.nodes = kept
        read = {operand for node in kept.values() for operand in node.inputs}
        self.constants = {name: value for name, value in self.constants.items() if name in read}
        self._readers = None
        return removed


def check_shape(name: str, shape: Shape | None) -> None:
    if shape is None:
        return
    if len(shape) > limits.RANK:
        raise Refused(f"'{name}' has {len(shape)} dimensions; a network of Assay has {limits.RANK} at most")
    elements = 1
    for extent in shape:
        elements *= extent
    if elements > limits.ELEMENTS:
        raise Refused(f"'{name}' has {elements} elements in a batch of two; the limit is {limits.ELEMENTS}")


def dtype_of(dtype: np.dtype[Any]) -> str:
    """Return our name of an element type."""
    if dtype == np.float32:
        return "f32"
    if dtype.kind in "iu":
        return "int"
    return "bool" if dtype.kind == "b" else str(dtype)
