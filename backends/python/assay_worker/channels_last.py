"""The layout of Keras and Flax: images (N, H, W, C), kernels (H, W, I, O), weights (in, out)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .program import Graph, Node

# Their arrays of four dimensions are sequences by heads, (N, S, H, D), or masks of them.
HEAD_OPS = {"attention", "cache_mask", "cache_write", "mean_pool", "padding_mask", "rotary"}
# Functions of two operands, which broadcast.
BROADCASTING_OPS = {"add", "divide", "multiply", "subtract"}
# The result has other dimensions than the operand.
RESHAPING_OPS = {"flatten", "matmul", "reduce", "reshape", "transpose"}


def values_of_heads(graph: Graph) -> set[str]:
    """Return the names of the values that are no images although they may have four dimensions."""
    found = {
        name for node in graph.nodes if node.op in HEAD_OPS for name in (*node.inputs, *node.outputs) if name
    }
    joined = [
        {name for name in (*node.inputs, *node.outputs) if name}
        for node in graph.nodes
        if node.op not in RESHAPING_OPS
    ]
    before = -1
    while before != len(found):
        before = len(found)
        for names in joined:
            if not names.isdisjoint(found):
                found |= names
    return found


def held_operands(graph: Graph, node: Node) -> tuple[bool, ...]:
    """Return which operands of a broadcasting op are parameters of four dimensions.

    They have the contract's layout, and the images that they meet have the framework's.
    """
    if node.op not in BROADCASTING_OPS:
        return (False, False)
    values = [graph.values.get(str(name)) for name in node.inputs]
    held = ("parameter", "state")
    return tuple(value is not None and value.role in held and len(value.shape) == 4 for value in values)


def images_to_theirs(batch: np.ndarray) -> np.ndarray:
    """Change NCHW to NHWC; return any other array unchanged."""
    return np.transpose(batch, (0, 2, 3, 1)) if batch.ndim == 4 else batch


def images_to_ours(batch: np.ndarray) -> np.ndarray:
    """Undo images_to_theirs()."""
    return np.ascontiguousarray(np.transpose(batch, (0, 3, 1, 2))) if batch.ndim == 4 else batch


@dataclass
class ChannelsLast:
    """Converts parameters, gradients and moments between the contract's layout and the framework's."""

    as_it_is: set[str] = field(default_factory=set)  # parameters with the same layout in both
    # For weights that multiply an image flattened as (H, W, C): the image's (C, H, W).
    rows: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # For kernels (H, W, I, M) of M filters for each of I channels: the number of channels.
    groups: dict[str, int] = field(default_factory=dict)

    def to_theirs(self, name: str, array: np.ndarray) -> np.ndarray:
        """OIHW to HWIO, (out, in) to (in, out)."""
        if name in self.as_it_is:
            return array
        if name in self.rows:
            images = array.reshape(-1, *self.rows[name])
            return images.transpose(2, 3, 1, 0).reshape(array.shape[::-1])
        if name in self.groups:
            return np.transpose(array, (2, 3, 1, 0)).reshape(*array.shape[2:], self.groups[name], -1)
        return np.transpose(array, (2, 3, 1, 0)) if array.ndim == 4 else array.T

    def to_ours(self, name: str, array: np.ndarray) -> np.ndarray:
        """Undo to_theirs()."""
        if name in self.as_it_is:
            return array
        if name in self.rows:
            channels, height, width = self.rows[name]
            images = array.reshape(height, width, channels, -1)
            return np.ascontiguousarray(images.transpose(3, 2, 0, 1)).reshape(array.shape[::-1])
        if name in self.groups:
            array = array.reshape(*array.shape[:2], 1, -1)
        return np.ascontiguousarray(np.transpose(array, (3, 2, 0, 1)) if array.ndim == 4 else array.T)
