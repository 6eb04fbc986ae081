"""Embeddings whose indices are constants, or are kept within the table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph
from ..shapes import BROADCAST, Shape, broadcast


def position_table(graph: Graph, name: str) -> list[str] | None:
    """Read rows that follow each other, or one row for all, as a slice of the table.

    Indices that are equal for each sample lose the batch, if only sums and products read the rows.
    """
    node = graph.node(name, "embedding")
    indices = graph.array(node.inputs[0]) if node is not None else None
    table = node.inputs[1] if node is not None else None
    if indices is None or table not in graph.constants or indices.ndim not in (1, 2) or table is None:
        return None
    rows = graph.known_shape(table)[0]
    found = _rows(indices, rows)
    if found is None:
        return None
    begin, end = found
    width = graph.known_shape(table)[1]
    shape = (end - begin, width) if indices.ndim == 1 else (1, end - begin, width)
    if not _fits(graph, name, shape, {}):
        return None
    graph.constants[table] = replace(graph.constants[table], role=graph.constants[table].role or "parameter")
    value, source = table, graph.nodes[name].source
    if (begin, end) != (0, rows):
        value = graph.add("slice", [value], graph.fresh(f"{name}.rows"), source, axis=0, begin=begin, end=end)
    if indices.ndim == 2:
        value = graph.add("reshape", [value], graph.fresh(f"{name}.row"), source, shape=list(shape))
    narrowed: dict[str, Shape] = {}
    _fits(graph, name, shape, narrowed)
    for reader, smaller in narrowed.items():
        graph.nodes[reader].shape = smaller
    return graph.substitute(name, value)


def _rows(indices: np.ndarray, rows: int) -> tuple[int, int] | None:
    """Return the first row and the one after the last."""
    if indices.size == 0 or (indices.ndim == 2 and (indices != indices[:1]).any()):
        return None
    one = [int(i) + rows * (i < 0) for i in (indices[0] if indices.ndim == 2 else indices)]
    first = one[0]
    if not 0 <= first < rows:
        return None
    if one == [first] * len(one):
        return first, first + 1
    return (first, one[-1] + 1) if one == list(range(first, one[-1] + 1)) and one[-1] < rows else None


def _fits(graph: Graph, name: str, shape: Shape, narrowed: dict[str, Shape]) -> bool:
    """Return whether the values that read a smaller one come to the same shape in the end."""
    if name == graph.output:
        return False
    for reader in graph.readers(name):
        node = graph.nodes[reader]
        if node.op not in BROADCAST:
            return False
        shapes = [
            shape if operand == name else narrowed.get(str(operand), graph.known_shape(str(operand)))
            for operand in node.inputs
        ]
        result = broadcast(shapes)
        if result != node.shape:
            if not _fits(graph, reader, result, narrowed):
                return False
            narrowed[reader] = result
    return True


def embedding_bounds(graph: Graph, name: str) -> list[str] | None:
    """Read the table itself if indices outside of it read a further row of zeros: no token is one.

    This is how Assay writes an embedding as ONNX.
    """
    node = graph.node(name, "embedding")
    chosen = graph.node(node.inputs[0], "where") if node is not None else None
    table = graph.array(node.inputs[1]) if node is not None else None
    if node is None or chosen is None or table is None:
        return None
    last = len(table) - 1
    below, least = graph.node(chosen.inputs[0], "less"), graph.node(chosen.inputs[2], "minimum")
    if below is None or least is None or last < 1 or table[last].any():
        return None
    tokens = str(below.inputs[0])
    bounds = [graph.scalar(each) for each in (below.inputs[1], chosen.inputs[1], least.inputs[1])]
    if bounds != [0, last, last] or least.inputs[0] != tokens:
        return None
    rows = graph.derive(str(node.inputs[1]), ".rows", table[:last])
    return graph.replace(name, "embedding", [tokens, rows])
