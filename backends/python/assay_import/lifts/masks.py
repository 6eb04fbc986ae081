"""The mask of padding: what a file computes of an input that is bound to not_equal(tokens, padding).

Each value of that computation has two values, one where a token is padding and one where it is not. They are
computed. If scores get 0 where there is a token and hide the others, padding_mask gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..graph import Graph, Node
from ..shapes import Shape

LOW = -1e4  # a score as low as this hides a key, as old exporters write it
TYPES = {"f32": np.float32, "int": np.int64, "bool": np.bool_}
EVALUATED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "and": np.logical_and,
    "divide": np.true_divide,
    "equal": np.equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "less": np.less,
    "less_or_equal": np.less_equal,
    "multiply": np.multiply,
    "negate": np.negative,
    "not": np.logical_not,
    "or": np.logical_or,
    "subtract": np.subtract,
    "where": np.where,
}


@dataclass(frozen=True)
class Two:
    """A value at padding and at tokens, and its shape before an expand."""

    padding: np.ndarray
    token: np.ndarray
    shape: Shape


def padding_mask(graph: Graph, name: str) -> list[str] | None:
    node = graph.node(name, "not_equal")
    if node is None or node.shape is None:
        return None
    values = _values(graph, name, node)
    mask = ""
    found: list[str] = []
    for value, two in values.items():
        for reader in list(graph.readers(value)) if value in graph.nodes else []:
            if (
                reader in values
                or reader not in graph.nodes
                or not _hides(graph, reader, value, two, node.shape)
            ):
                continue
            if not mask:
                mask = graph.fresh(f"{name}.padding_mask")
                graph.add("padding_mask", node.inputs, mask, node.source, padding=node.attributes["padding"])
            found += _masked(graph, reader, value, mask)
    return found if mask else None


def _values(graph: Graph, name: str, node: Node) -> dict[str, Two]:
    """Return the values that have two values, those of the bound input first."""
    dtype = TYPES.get(node.dtype, np.float32)
    values = {name: Two(np.asarray(dtype(0)), np.asarray(dtype(1)), node.shape or ())}
    for other in graph.nodes:
        if other not in values:
            two = _evaluated(graph, graph.nodes[other], values)
            if two is not None:
                values[other] = two
    return values


def _evaluated(graph: Graph, node: Node, values: dict[str, Two]) -> Two | None:
    given = [values[str(each)] for each in node.inputs if each in values]
    if not given or node.shape is None:
        return None
    if node.op == "expand":
        return given[0]
    if node.op == "reshape":
        is_same = [extent for extent in node.shape if extent != 1] == [e for e in given[0].shape if e != 1]
        return Two(given[0].padding, given[0].token, node.shape) if is_same else None
    if node.op == "cast":
        dtype = TYPES[node.dtype]
        return Two(given[0].padding.astype(dtype), given[0].token.astype(dtype), given[0].shape)
    if node.op not in EVALUATED or len({two.shape for two in given}) > 1:
        return None
    results: list[np.ndarray] = []
    for which in ("padding", "token"):
        operands = [_operand(graph, str(each), values, which) for each in node.inputs]
        if any(operand is None for operand in operands):
            return None
        with np.errstate(all="ignore"):
            results.append(
                np.asarray(EVALUATED[node.op](*operands)).astype(TYPES.get(node.dtype, np.float32))
            )
    return Two(results[0], results[1], given[0].shape)


def _operand(graph: Graph, name: str, values: dict[str, Two], which: str) -> np.ndarray | None:
    """Return the one element of an operand: of a constant whose elements are equal, or one of two values."""
    if name in values:
        return np.asarray(getattr(values[name], which))
    array = graph.array(name)
    if array is None or array.size == 0 or not (array == array.reshape(-1)[0]).all():
        return None
    return np.asarray(array.reshape(-1)[0])


def _hides(graph: Graph, reader: str, value: str, two: Two, tokens: Shape) -> bool:
    """Return whether a node gives scores a mask: 0 for tokens, and a low number for padding."""
    if two.shape != (tokens[0], 1, 1, tokens[1]):
        return False
    node = graph.nodes[reader]
    if node.op == "where" and node.inputs[0] == value:
        shown, low = (1, 2) if bool(two.token) else (2, 1)
        number = graph.scalar(node.inputs[low])
        scores = graph.shape(str(node.inputs[shown]))
        return (
            bool(two.token) != bool(two.padding)
            and number is not None
            and number <= LOW
            and scores == node.shape
        )
    return (
        node.op in ("add", "attention")
        and node.dtype == "f32"
        and two.token == 0
        and bool(two.padding <= LOW)
    )


def _masked(graph: Graph, reader: str, value: str, mask: str) -> list[str]:
    node = graph.nodes[reader]
    if node.op == "where":
        scores = next(str(each) for each in node.inputs[1:] if graph.scalar(each) is None)
        return graph.replace(reader, "add", [scores, mask])
    inputs = [mask if operand == value else operand for operand in node.inputs]
    return graph.replace(reader, node.op, inputs, **node.attributes)
