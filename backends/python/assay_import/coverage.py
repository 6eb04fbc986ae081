"""Which nodes no op of Assay computes, and how much of the work they are."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from .graph import MISSING, Graph, Node
from .shapes import PARTS


@dataclass(frozen=True)
class Gap:
    """Nodes that are missing for one reason. `first` is the name of the first of them in the file."""

    feature: str
    nodes: int
    share_of_flops: float
    first: str


def flops(graph: Graph, node: Node) -> float:
    """Return about how many operations a node has. It decides the order of a table, nothing else."""
    out = math.prod(node.shape or (0,))
    shapes = [graph.shape(name) or () for name in node.inputs if name is not None]
    if node.op == "attention":
        return 4.0 * math.prod(shapes[0]) * shapes[1][1]
    if node.op == "lstm":
        return 2.0 * math.prod(shapes[0][:2]) * (math.prod(shapes[1]) + math.prod(shapes[2]))
    if node.op == "matmul":
        return 2.0 * out * shapes[0][-2 if node.attributes.get("transpose_a") else -1]
    weights = [shape for shape in shapes[1:2] if len(shape) >= 2]
    is_product = node.op in ("convolution", "linear") or (
        node.op == MISSING and "conv" in node.source.op.lower()
    )
    if weights and is_product and weights[0][0]:
        return 2.0 * out * math.prod(weights[0][1:])
    return float(out)


def feature_of(node: Node) -> str:
    """Return what of a node is missing; "" if nothing is, or if it follows another that is."""
    if node.op == MISSING:
        return str(node.attributes["feature"])
    if node.op in PARTS:
        return node.source.op
    kinds = {"f32": "", "int": "whole numbers", "bool": "truth values"}
    kind = kinds.get(node.dtype, node.dtype)
    return f"{node.source.op}: of {kind}" if kind else ""


def gaps(graph: Graph) -> list[Gap]:
    """Return what is missing on the way to the output, the largest share of the work first."""
    found: dict[str, dict[str, float]] = {}
    total = 0.0
    for name in graph.order():
        node = graph.nodes[name]
        work = flops(graph, node)
        total += work
        feature = feature_of(node)
        if feature:
            nodes = found.setdefault(feature, {})
            nodes[node.source.name] = nodes.get(node.source.name, 0) + work
    listed = [
        Gap(feature, len(nodes), sum(nodes.values()) / total if total else 0.0, next(iter(nodes)))
        for feature, nodes in found.items()
    ]
    return sorted(listed, key=lambda gap: (-gap.share_of_flops, -gap.nodes, gap.feature))


def ops_of(graph: Graph) -> list[dict[str, str | int]]:
    counted = Counter(graph.nodes[name].op for name in graph.order())
    return [{"op": op, "nodes": count} for op, count in sorted(counted.items()) if op != MISSING]


def table(found: list[Gap]) -> str:
    rows = [("missing", "nodes", "FLOPs", "first node")]
    rows += [(gap.feature, str(gap.nodes), f"{gap.share_of_flops:.1%}", gap.first) for gap in found]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]), row[3]]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
