"""Nodes that change nothing: sums with zeros, products with ones, transposes of transposes, such reshapes."""

from __future__ import annotations

from ..graph import Graph
from ..shapes import broadcast

NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}


def identity(graph: Graph, name: str) -> list[str] | None:
    node = graph.nodes[name]
    if node.op not in NEUTRAL:
        return None
    first, second = (str(operand) for operand in node.inputs)
    tries = [(first, second)] if node.op in ("subtract", "divide") else [(first, second), (second, first)]
    for value, constant in tries:
        array = graph.array(constant)
        if (
            array is None
            or graph.constants[constant].role == "parameter"
            or graph.constants[constant].is_filled
        ):
            continue
        same = graph.shape(value) == broadcast([graph.known_shape(value), array.shape])
        if same and (value in graph.nodes or name != graph.output) and (array == NEUTRAL[node.op]).all():
            return graph.substitute(name, value)
    return None


def reshapes(graph: Graph, name: str) -> list[str] | None:
    """One reshape for two, and none for one that changes no shape."""
    node = graph.node(name, "reshape")
    if node is None:
        return None
    value = str(node.inputs[0])
    if graph.shape(value) == node.shape:
        return graph.substitute(name, value) if value in graph.nodes or name != graph.output else None
    before = graph.node(value, "reshape")
    if before is None:
        return None
    return graph.replace(name, "reshape", [before.inputs[0]], **node.attributes)


def inner_transposes(graph: Graph, name: str) -> list[str] | None:
    """Exchange the last two of four dimensions without joining the first two for that."""
    last = graph.node(name, "reshape")
    middle = graph.node(last.inputs[0], "transpose") if last is not None else None
    first = graph.node(middle.inputs[0], "reshape") if middle is not None else None
    if last is None or middle is None or first is None or middle.attributes["permutation"] != [0, 2, 1]:
        return None
    shape = graph.known_shape(str(first.inputs[0]))
    joined = len(shape) == 4 and first.shape == (shape[0] * shape[1], *shape[2:])
    if not joined or last.shape != (shape[0], shape[1], shape[3], shape[2]):
        return None
    return graph.replace(name, "transpose", [first.inputs[0]], permutation=[0, 1, 3, 2])


def transposes(graph: Graph, name: str) -> list[str] | None:
    """One transpose for two, and none for one that moves nothing."""
    node = graph.node(name, "transpose")
    if node is None:
        return None
    order = list(node.attributes["permutation"])
    value = str(node.inputs[0])
    before = graph.node(value, "transpose")
    if before is not None:
        order = [before.attributes["permutation"][i] for i in order]
        value = str(before.inputs[0])
    if order == sorted(order) and value not in graph.constants:
        return graph.substitute(name, value)
    if before is None:
        return None
    return graph.replace(name, "transpose", [value], permutation=order)
