"""Forms that only the file's ops have, written as Assay's ops: products of unequal rank, the logits."""

from __future__ import annotations

import math

import numpy as np

from .errors import Refused
from .graph import MISSING, Constant, Graph, Node
from .shapes import text

CUT = ("softmax", "log_softmax")


def cut_softmax(graph: Graph) -> str | None:
    """Take the logits instead of their softmax, which is part of the loss. Returns its op if there is one."""
    name = graph.output
    node = graph.nodes[name]
    if node.op == "reshape":
        inner = graph.node(node.inputs[0], *CUT)
        if inner is None or inner.source != node.source:
            return None
        node = inner
    if node.op not in CUT:
        return None
    logits = str(node.inputs[0])
    before = graph.node(logits, "reshape")
    if before is not None and before.source == node.source:
        logits = str(before.inputs[0])
    if logits not in graph.nodes:
        return None
    graph.output = logits
    return node.op


def check_logits(graph: Graph) -> None:
    """See that the output is (N, C) or (N, T, C); remove further dimensions of 1."""
    name = graph.output
    node = graph.nodes[name]
    shape = node.shape
    if shape is None:
        raise Refused(f"the shape of the output '{name}' is not known; the file is damaged")
    kept = list(shape)
    while len(kept) > 2 and kept[-1] == 1:
        kept.pop()
    if len(kept) not in (2, 3) or kept[0] != graph.batch or kept[-1] < 2:
        raise Refused(
            f"the output '{name}' is {text(shape)} for a batch of {graph.batch}; the logits of a network are "
            "(N, C) or (N, T, C) with two classes or more: name another output with --output"
        )
    if len(kept) == len(shape):
        return
    inner = str(node.inputs[0]) if node.op == "reshape" else name
    if graph.shape(inner) == tuple(kept) and inner in graph.nodes:
        graph.output = inner
    else:
        graph.output = graph.add("reshape", [inner], graph.fresh(f"{name}.logits"), node.source, shape=kept)


def legalise(graph: Graph) -> None:
    """Write parts that no lift took as Assay's ops, where one computes the same."""
    for name in list(graph.nodes):
        node = graph.nodes[name]
        if node.shape is None:
            continue
        if node.op == "matmul":
            _matmul(graph, name, node)
        elif node.op == "embedding" and node.inputs[0] in graph.constants:
            _missing(graph, name, "embedding: of constant indices that do not follow each other")
        elif node.op == "negate":
            graph.replace(name, "multiply", [node.inputs[0], _number(graph, name, -1)])
        elif node.op == "reciprocal":
            graph.replace(name, "divide", [_number(graph, name, 1), node.inputs[0]])
        elif node.op == "power" and graph.scalar(node.inputs[1]) == 2:
            graph.replace(name, "multiply", [node.inputs[0]] * 2)


def _missing(graph: Graph, name: str, feature: str) -> None:
    node = graph.nodes[name]
    graph.put(name, Node(MISSING, node.inputs, {"feature": feature}, node.shape, node.dtype, node.source))


def _number(graph: Graph, name: str, value: float) -> str:
    return graph.hold(f"{name}.number", Constant(np.array(value, np.float32)))


def _matmul(graph: Graph, name: str, node: Node) -> None:
    a, b = (str(operand) for operand in node.inputs)
    first, second = graph.known_shape(a), graph.known_shape(b)
    if first[:-2] == second[:-2]:
        return
    if len(second) != 2 or node.attributes.get("transpose_a") or node.shape is None:
        _missing(graph, name, "matmul: leading dimensions that are not equal")
        return
    rows = math.prod(first[:-1])
    flat = graph.add("reshape", [a], graph.fresh(f"{name}.rows"), node.source, shape=[rows, first[-1]])
    product = graph.add("matmul", [flat, b], graph.fresh(f"{name}.product"), node.source, **node.attributes)
    shape = list(node.shape)
    graph.put(name, Node("reshape", [product], {"shape": shape}, node.shape, node.dtype, node.source))
