"""Readers of files: ONNX or .pt2."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .graph import Graph


class Reader(Protocol):
    """A file that is open: a graph for each batch size, and facts about the file."""

    facts: dict[str, Any]

    def read(self, batch: int) -> Reading: ...


@dataclass
class Reading:
    """The graph of one batch size before lifts, and what was done to make it."""

    graph: Graph
    bound: dict[str, str]
    folded: dict[str, int]
    notes: list[str]
    output: str  # its name in the file
    other_outputs: list[str]
    freed: int
    file_batch: int


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
