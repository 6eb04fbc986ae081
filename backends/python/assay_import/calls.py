"""What the readers of both formats share: the facts about a file, and a node that becomes ops of Assay."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import Missing
from .graph import Constant, Graph, Source
from .limits import BOUND
from .options import Options
from .shapes import Shape


def clamped(least: float, most: float) -> dict[str, Any]:
    """Return the attributes of a clamp; a bound that is larger than any value is none."""
    return {"least": max(least, -BOUND), "most": min(most, math.nextafter(BOUND, 0))}


@dataclass
class FileState:
    """Facts about the file that the reader collects."""

    graph: Graph
    options: Options
    file_batch: int = 0  # that of the file's input; 0: none
    renamed: dict[str, str] = field(default_factory=dict)  # values that are other values
    freed: set[str] = field(default_factory=set)  # nodes in which the file's batch became a free one


class FileCall:
    """A node of a file. `out` is the name of the first result."""

    def __init__(self, state: FileState, source: Source, outs: list[str]) -> None:
        self.state, self.source, self.outs = state, source, outs
        self.graph, self.batch = state.graph, state.graph.batch
        self.out = outs[0] if outs else ""

    def result(
        self, op: str, *inputs: str | None, out: str = "", dtype: str = "f32", **attributes: Any
    ) -> None:
        """Add the node that makes the first result, or the one named."""
        self.graph.add(op, inputs, out or self.out, self.source, dtype, **attributes)

    def step(self, op: str, *inputs: str | None, **attributes: Any) -> str:
        """Add a node before that, named after it and its op; return its result."""
        return self.graph.add(op, inputs, self.graph.fresh(f"{self.out}.{op}"), self.source, **attributes)

    def same(self, name: str, out: str = "") -> None:
        """Let a result be another value."""
        self.state.renamed[out or self.out] = name

    def hold(self, suffix: str, array: np.ndarray, **more: Any) -> str:
        """Add a constant of ours."""
        return self.graph.hold(f"{self.out}.{suffix}", Constant(array, **more))

    def with_free_batch(self, shape: Shape, wanted: list[int]) -> list[int]:
        """Return the extents of a reshape of `shape`.

        If the file's own batch is in them, it becomes the present one, or they are refused.
        """
        own = self.state.file_batch
        is_baked = (
            own not in (0, self.batch)
            and shape[:1] == (self.batch,)
            and wanted[:1] == [own]
            and (-1 in wanted[1:] or math.prod(wanted) * self.batch == math.prod(shape) * own)
        )
        if not is_baked:
            return wanted
        if not self.state.options.free_batch:
            raise Missing(f"reshape: a batch of {own} is written in it (--free-batch replaces it)")
        self.state.freed.add(self.source.name)
        return [self.batch, *wanted[1:]]


def over_images(c: FileCall, op: str, x: str, *others: str | None, **attributes: Any) -> None:
    """Add an op over images, or over sequences (N, C, L) as one over images of one row."""
    shape = c.graph.known_shape(x)
    if len(shape) == 4:
        c.result(op, x, *others, **attributes)
        return
    rows = c.step("reshape", x, shape=[*shape[:2], 1, shape[2]])
    images = c.step(op, rows, *others, **attributes)
    samples, channels, _, length = c.graph.known_shape(images)
    c.result("reshape", images, shape=[samples, channels, length])


def add_prelu(c: FileCall, x: str, slope: str) -> None:
    """Add relu(x) + slope * (x - relu(x)): where x is positive the second term is 0, elsewhere the first."""
    positive = c.step("relu", x)
    negative = c.step("subtract", x, positive)
    c.result("add", positive, c.step("multiply", negative, slope))
