"""Canonical forms for the rules: a product is one number and its sorted operands."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Graph

TOLERANCE = 1e-6  # relative: constants of a file are rounded to f32, some exporters round twice


def close(value: float | None, wanted: float) -> bool:
    return value is not None and math.isclose(value, wanted, rel_tol=TOLERANCE)


def factors(graph: Graph, name: str, is_root: bool = True) -> tuple[float, list[str]]:
    """Return a value as a number times values, sorted.

    A product that something else reads, too, is one value: so the operand of an activation, which is read
    twice, is never taken apart.
    """
    value = graph.scalar(name)
    if value is not None:
        return value, []
    node = graph.node(name, "multiply", "divide", "negate", "power")
    if node is None or not (is_root or graph.only_reader(name)):
        return 1.0, [name]
    first, *rest = (str(operand) for operand in node.inputs)
    if node.op == "negate":
        number, operands = factors(graph, first, False)
        return -number, operands
    if node.op == "power":
        exponent = graph.scalar(rest[0])
        return (1.0, [first] * int(exponent)) if exponent in (2.0, 3.0) else (1.0, [name])
    if node.op == "divide":
        divisor = graph.scalar(rest[0])
        if not divisor:
            return 1.0, [name]
        number, operands = factors(graph, first, False)
        return number / divisor, operands
    if first == rest[0]:
        return 1.0, [first, first]
    parts = [factors(graph, first, False), factors(graph, rest[0], False)]
    return parts[0][0] * parts[1][0], sorted(parts[0][1] + parts[1][1])


def plus(graph: Graph, name: str, wanted: float) -> str | None:
    """Return x if a value is x + wanted, or wanted + x, and only one node reads it."""
    node = graph.node(name, "add")
    if node is None or not graph.only_reader(name):
        return None
    for value, other in (node.inputs, node.inputs[::-1]):
        if close(graph.scalar(value), wanted):
            return other
    return None


def others(values: list[str], name: str) -> list[str]:
    """Return values without one of the name."""
    rest = list(values)
    rest.remove(name)
    return rest


def vector(graph: Graph, name: str | None, length: int, after: int = 0) -> np.ndarray | None:
    """Return the elements of a constant with one for each of `length`, before `after` dimensions of 1."""
    array = graph.array(name)
    if array is None or array.size != length:
        return None
    shape = array.shape
    fits = len(shape) > after and shape[len(shape) - 1 - after] == length
    return array.reshape(-1) if fits and array.dtype == np.float32 else None


def as_vector(graph: Graph, name: str) -> str:
    """Return a constant as one with one dimension."""
    held = graph.constants[name]
    if held.array.ndim == 1:
        return name
    return graph.derive(name, ".vector", held.array.reshape(-1), original=held.original)
