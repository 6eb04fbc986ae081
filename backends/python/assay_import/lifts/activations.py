"""GELU, SiLU, hard-swish, hard-sigmoid and softsign of their parts."""

from __future__ import annotations

import math

from ..graph import Graph
from .matching import close, factors, others, plus


def gelu(graph: Graph, name: str) -> list[str] | None:
    """0.5 x (1 + erf(x / sqrt(2))), or its approximation by tanh, with its factors in any order."""
    if graph.node(name, "multiply", "divide") is None:
        return None
    number, operands = factors(graph, name)
    if not close(number, 0.5) or len(operands) != 2:
        return None
    for curve in operands:
        inner = plus(graph, curve, 1.0)
        x = others(operands, curve)[0]
        if inner is None or not graph.only_reader(inner):
            continue
        for op, kind, matches in (("erf", "none", is_root_of_half), ("tanh", "tanh", is_cubic)):
            node = graph.node(inner, op)
            if node is not None and matches(graph, str(node.inputs[0]), x):
                return graph.replace(name, "gelu", [x], approximate=kind)
    return None


def is_root_of_half(graph: Graph, name: str, x: str) -> bool:
    """Return whether a value is x / sqrt(2)."""
    number, operands = factors(graph, name, is_root=graph.only_reader(name) is not None)
    return close(number, math.sqrt(0.5)) and operands == [x]


def is_cubic(graph: Graph, name: str, x: str) -> bool:
    """Return whether a value is sqrt(2 / pi) (x + 0.044715 x^3), or that with x taken out."""
    if not graph.only_reader(name):
        return False
    number, operands = factors(graph, name)
    if not close(number, math.sqrt(2 / math.pi)):
        return False
    if len(operands) == 1:
        node = graph.node(operands[0], "add")
        if node is None or not graph.only_reader(operands[0]):
            return False
        return any(
            first == x and is_power(graph, str(second), x, 3)
            for first, second in (node.inputs, node.inputs[::-1])
        )
    if len(operands) != 2 or x not in operands:
        return False
    square = plus(graph, others(operands, x)[0], 1.0)
    return square is not None and is_power(graph, square, x, 2)


def is_power(graph: Graph, name: str, x: str, exponent: int) -> bool:
    number, operands = factors(graph, name)
    return close(number, 0.044715) and operands == [x] * exponent


def silu(graph: Graph, name: str) -> list[str] | None:
    """x sigmoid(x)."""
    node = graph.node(name, "multiply")
    if node is None:
        return None
    for x, curve in (node.inputs, node.inputs[::-1]):
        inner = graph.node(curve, "sigmoid")
        if inner is not None and inner.inputs == [x] and graph.only_reader(str(curve)):
            return graph.replace(name, "silu", [x])
    return None


def softsign(graph: Graph, name: str) -> list[str] | None:
    """x / (1 + |x|)."""
    node = graph.node(name, "divide")
    if node is None:
        return None
    x, below = node.inputs
    size = plus(graph, str(below), 1.0)
    absolute = graph.node(size, "absolute") if size is not None and graph.only_reader(size) else None
    if absolute is None or absolute.inputs != [x]:
        return None
    return graph.replace(name, "softsign", [x])


def hard_swish(graph: Graph, name: str) -> list[str] | None:
    """x clamp(x + 3, 0, 6) / 6, or x hard_sigmoid(x) with a slope of 1/6."""
    if graph.node(name, "multiply", "divide") is None:
        return None
    number, operands = factors(graph, name)
    if len(operands) != 2:
        return None
    for curve in operands:
        x = others(operands, curve)[0]
        if close(number, 1 / 6) and clamped(graph, curve) == x:
            return graph.replace(name, "hard_swish", [x])
        node = graph.node(curve, "hard_sigmoid")
        is_curve = node is not None and node.inputs == [x] and graph.only_reader(curve) is not None
        if number != 1 or node is None or not is_curve:
            continue
        if close(node.attributes["alpha"], 1 / 6) and close(node.attributes["beta"], 0.5):
            return graph.replace(name, "hard_swish", [x])
    return None


def hard_sigmoid(graph: Graph, name: str) -> list[str] | None:
    """clamp(x + 3, 0, 6) / 6."""
    if graph.node(name, "multiply", "divide") is None:
        return None
    number, operands = factors(graph, name)
    x = clamped(graph, operands[0]) if len(operands) == 1 else None
    if x is None or not close(number, 1 / 6):
        return None
    return graph.replace(name, "hard_sigmoid", [x], alpha=1 / 6, beta=0.5)


def clamped(graph: Graph, name: str) -> str | None:
    """Return x if a value is clamp(x + 3, 0, 6)."""
    node = graph.node(name, "clamp")
    if node is None or (node.attributes["least"], node.attributes["most"]) != (0, 6):
        return None
    return plus(graph, str(node.inputs[0]), 3.0) if graph.only_reader(name) else None
