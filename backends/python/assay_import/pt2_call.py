"""A node of torch.export as the functions of pt2_ops.py see it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .calls import FileCall, FileState
from .errors import Missing
from .graph import Source
from .shapes import Shape


@dataclass
class State(FileState):
    """For torch.export: the batch of the file is that of a static export."""

    modes: Counter[str] = field(default_factory=Counter)  # how many nodes were exported in eval mode


@dataclass(frozen=True)
class Ref:
    """The name of a value."""

    name: str


def short_name(target: str) -> str:
    """Return aten.conv2d.default for torch.ops.aten.conv2d.default."""
    return target.removeprefix("torch.ops.").removeprefix("_operator.")


class Call(FileCall):
    """`op` is the op without its overload, and without the mark of one that overwrites its operand."""

    state: State

    def __init__(
        self, state: State, target: str, source: Source, arguments: dict[str, Any], outs: list[str]
    ) -> None:
        super().__init__(state, source, outs)
        self.target, self.arguments = target, arguments
        parts = target.split(".")
        self.op = parts[1] if parts[0] == "aten" and len(parts) > 1 else target
        if self.op.endswith("_") and not self.op.startswith("_"):
            self.op = self.op.rstrip("_")

    # Arguments.

    def tensor(self, name: str) -> str:
        """Return the name of a value that must be there."""
        found = self.optional(name)
        if found is None:
            raise Missing(f"{self.target}: without {name}")
        return found

    def optional(self, name: str) -> str | None:
        found = self.arguments.get(name)
        return found.name if isinstance(found, Ref) else None

    def get(self, name: str, default: Any = None) -> Any:
        found = self.arguments.get(name)
        return default if found is None else found

    def number(self, name: str, default: float) -> float:
        found = self.get(name, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise Missing(f"{self.target}: {name} is not a number")
        return float(found)

    def ints(self, name: str, default: list[int] | None = None) -> list[int]:
        found = self.get(name, default if default is not None else [])
        found = found if isinstance(found, list) else [found]
        if any(not isinstance(each, int) for each in found):
            raise Missing(f"{self.target}: {name} is not known")
        return [int(each) for each in found]

    def shape(self, name: str = "self") -> Shape:
        return self.graph.known_shape(self.tensor(name))

    def axis(self, value: Any, rank: int | None = None) -> int:
        rank = len(self.shape()) if rank is None else rank
        if not isinstance(value, int) or not -rank <= value < rank:
            raise Missing(f"{self.target}: dimension {value} of {rank}")
        return value % rank

    def floats(self, *names: str) -> None:
        for name in names:
            found = self.optional(name)
            if found is not None and self.graph.dtype(found) != "f32":
                raise Missing(f"{self.target}: {self.graph.dtype(found)}")

    def array(self, name: str) -> np.ndarray:
        """Return the elements of a constant operand."""
        found = self.graph.array(self.optional(name))
        if found is None:
            raise Missing(f"{self.target}: {name} is computed from the input")
        return found
