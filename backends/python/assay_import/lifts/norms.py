"""Layer norm of its parts: two means, a root and a division."""

from __future__ import annotations

import numpy as np

from ..graph import Constant, Graph
from .matching import as_vector, close, factors, vector


def layer_norm(graph: Graph, name: str) -> list[str] | None:
    """(x - mean) / sqrt(variance + epsilon), then a scale and a shift if the file has them."""
    found = _normalised(graph, name)
    if found is None:
        return None
    x, epsilon = found
    length = graph.known_shape(x)[-1]
    root, scale = _then(graph, name, "multiply", length)
    root, shift = _then(graph, root, "add", length) if scale else (root, None)
    names = []
    for given, kind, value in ((scale, "scale", 1.0), (shift, "shift", 0.0)):
        fixed = Constant(np.full(length, value, np.float32), role="constant")
        names.append(as_vector(graph, given) if given else graph.hold(f"{root}.{kind}", fixed))
    return graph.replace(root, "layer_norm", [x, *names], epsilon=epsilon)


def _then(graph: Graph, name: str, op: str, length: int) -> tuple[str, str | None]:
    """Return the only reader of a value and its vector, if it applies one with this op."""
    reader = graph.only_reader(name)
    node = graph.node(reader, op)
    if reader is not None and node is not None:
        for value, given in (node.inputs, node.inputs[::-1]):
            if value == name and vector(graph, given, length) is not None and node.shape == graph.shape(name):
                return reader, given
    return name, None


def _normalised(graph: Graph, name: str) -> tuple[str, float] | None:
    """Return x and epsilon."""
    node = graph.node(name, "divide", "multiply")
    if node is None:
        return None
    pairs = [(node.inputs[0], node.inputs[1])]
    pairs += [(node.inputs[1], node.inputs[0])] if node.op == "multiply" else []
    for centred, root in pairs:
        variance = _under_root(graph, str(root), is_inverse=node.op == "multiply")
        difference = graph.node(centred, "subtract")
        if variance is None or difference is None:
            continue
        x = str(difference.inputs[0])
        squared = _mean_of(graph, variance[0])
        if _mean_of(graph, str(difference.inputs[1])) != x or squared is None:
            continue
        if factors(graph, squared) == (1.0, [centred, centred]):
            return x, variance[1]
    return None


def _under_root(graph: Graph, name: str, is_inverse: bool) -> tuple[str, float] | None:
    """Return v and epsilon of sqrt(v + epsilon), or of its inverse."""
    node = graph.node(name, "sqrt", "power", "reciprocal")
    if node is None:
        return None
    inner = str(node.inputs[0])
    if node.op == "reciprocal":
        return _under_root(graph, inner, is_inverse=False) if is_inverse else None
    if node.op == "power" and not close(graph.scalar(node.inputs[1]), -0.5 if is_inverse else 0.5):
        return None
    if node.op == "sqrt" and is_inverse:
        return None
    total = graph.node(inner, "add")
    if total is None:
        return None
    for value, epsilon in (total.inputs, total.inputs[::-1]):
        number = graph.scalar(epsilon)
        if number is not None and number > 0:
            return str(value), number
    return None


def _mean_of(graph: Graph, name: str) -> str | None:
    """Return x if a value is its mean over the last dimension, which stays as 1."""
    kept = graph.node(name, "reshape")
    mean = graph.node(kept.inputs[0], "reduce") if kept is not None else None
    if kept is None or mean is None or mean.attributes["kind"] != "mean":
        return None
    x = str(mean.inputs[0])
    shape = graph.known_shape(x)
    fits = mean.attributes["axes"] == [len(shape) - 1] and kept.shape == (*shape[:-1], 1)
    return x if fits else None
