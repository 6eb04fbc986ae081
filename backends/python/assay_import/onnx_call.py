"""A node of ONNX as the functions of onnx_ops.py see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from .calls import FileCall, FileState
from .errors import Missing
from .graph import Source
from .shapes import Shape

Cuts = list[tuple[int, int, int]]  # axis, begin and end of each


@dataclass
class State(FileState):
    """For ONNX."""

    opset: int = 0
    # For each sequence, the value that it cuts, and the cuts of each part.
    sequences: dict[str, tuple[str, list[Cuts]]] = field(default_factory=dict)


class Call(FileCall):
    """A node of ONNX. An absent operand is None."""

    state: State

    def __init__(
        self,
        state: State,
        node: onnx.NodeProto,
        source: Source,
        inputs: list[str | None],
        attributes: dict[str, Any],
    ) -> None:
        super().__init__(state, source, list(node.output))
        self.inputs, self.attributes = inputs, attributes
        self.opset = state.opset

    # Operands.

    def input(self, i: int) -> str:
        """Return the name of an operand that must be there."""
        found = self.optional(i)
        if found is None:
            raise Missing(f"{self.source.op}: without operand {i + 1}")
        return found

    def optional(self, i: int) -> str | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def shape(self, i: int = 0) -> Shape:
        shape = self.graph.shape(self.input(i))
        assert shape is not None  # the reader calls no function for an unknown operand
        return shape

    def floats(self, *which: int) -> None:
        """Refuse operands of another type: all of them, or these."""
        for i in which or range(len(self.inputs)):
            name = self.optional(i)
            dtype = "f32" if name is None else self.graph.dtype(name)
            if dtype != "f32":
                raise Missing(f"{self.source.op}: {'whole numbers' if dtype == 'int' else dtype}")

    def constant(self, i: int) -> np.ndarray:
        array = self.graph.array(self.input(i))
        if array is None:
            raise Missing(f"{self.source.op}: operand {i + 1} is computed from the input")
        return array

    def text(self, name: str, default: str = "") -> str:
        value = self.attributes.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def numbers(self, name: str, i: int | None = None) -> list[int] | None:
        """Return whole numbers that are an attribute in old opsets and an operand in new ones."""
        if name in self.attributes:
            value = self.attributes[name]
            return [int(each) for each in value] if isinstance(value, (list, tuple)) else [int(value)]
        if i is None or self.optional(i) is None:
            return None
        return [int(each) for each in self.constant(i).reshape(-1)]

    def number(self, name: str, default: float, i: int | None = None) -> float:
        """Return a number that is an attribute in old opsets and an operand in new ones."""
        if name in self.attributes:
            return shortest(self.attributes[name])
        if i is None or self.optional(i) is None:
            return default
        return shortest(self.constant(i).reshape(-1)[0])

    def axis(self, value: int, rank: int | None = None) -> int:
        """Return an axis counted from the first; refuse one that the operand does not have."""
        rank = len(self.shape()) if rank is None else rank
        if not -rank <= value < rank:
            raise Missing(f"{self.source.op}: axis {value} of {rank}")
        return value % rank

    def is_read(self, i: int) -> bool:
        """Return whether a result has a name, and so may be read."""
        return i < len(self.outs) and self.outs[i] != ""

    # Results.

    def turned(self, i: int) -> str:
        """Return the transposed constant of operand i."""
        name = self.input(i)
        held = self.graph.constants[name]
        return self.graph.derive(name, ".T", held.array.T, original=held.original, turned=not held.turned)


def shortest(value: float) -> float:
    """Return 1e-5 for the float that is nearest to it: it means that number."""
    return float(str(np.float32(value)))
