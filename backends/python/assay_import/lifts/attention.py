"""Attention of its parts: two products with a softmax between them, a scale, a mask."""

from __future__ import annotations

import math

import numpy as np

from ..graph import Constant, Graph, Node
from .matching import close, factors

HIDDEN = -1e9  # scores as low as this are those of hidden keys: e^score is 0
MASKED = np.float32(HIDDEN)  # in place of -inf and the lowest numbers, which no file of weights may have


def hidden(graph: Graph, name: str) -> list[str] | None:
    """Turn where(seen, scores, -inf), with constants for seen, into scores + mask."""
    node = graph.node(name, "where")
    if node is None:
        return None
    seen = graph.array(node.inputs[0])
    first, second = str(node.inputs[1]), str(node.inputs[2])
    if seen is None:
        return None
    low, scores, shown = graph.scalar(second), first, seen.astype(bool)
    if low is None:
        low, scores, shown = graph.scalar(first), second, ~seen.astype(bool)
    if low is None or low > HIDDEN or not shown.any(axis=-1).all() or graph.shape(scores) != node.shape:
        return None
    mask = np.where(shown, np.float32(0), MASKED)
    return graph.replace(name, "add", [scores, graph.hold(f"{name}.mask", Constant(mask))])


def attention(graph: Graph, name: str) -> list[str] | None:
    """softmax(scale q k^T + mask) v with heads before positions."""
    node = graph.node(name, "matmul")
    weights = graph.node(node.inputs[0], "softmax") if node is not None else None
    if node is None or weights is None or not graph.only_reader(str(node.inputs[0])) or _is_turned(node):
        return None
    if not graph.only_reader(str(weights.inputs[0])):
        return None
    scores, masks = _masked(graph, str(weights.inputs[0]))
    number, operands = factors(graph, scores)
    product = graph.node(operands[0], "matmul") if len(operands) == 1 else None
    if product is None or product.attributes.get("transpose_a") or not graph.only_reader(operands[0]):
        return None
    q, k, v = str(product.inputs[0]), str(product.inputs[1]), str(node.inputs[1])
    q_number, q = _scaled(graph, q)
    k_number, k = _scaled(graph, k)
    shapes = [graph.known_shape(each) for each in (q, k, v)]
    keys = shapes[2][-2]
    mask = _mask(graph, masks, keys, name)
    if any(len(shape) != 4 or shape[:2] != shapes[0][:2] for shape in shapes) or mask == "":
        return None
    scale = number * q_number * k_number
    width = shapes[0][-1]
    scale = 0.0 if close(scale, 1 / math.sqrt(width)) else scale
    if scale < 0 or width != shapes[2][-1]:
        return None
    source = node.source
    is_turned = bool(product.attributes.get("transpose_b"))
    orders = ([0, 2, 1, 3], [0, 2, 1, 3] if is_turned else [0, 3, 1, 2], [0, 2, 1, 3])
    operands = [
        graph.add("transpose", [each], graph.fresh(f"{name}.{part}"), source, permutation=order)
        for each, part, order in zip((q, k, v), "qkv", orders, strict=True)
    ]
    y = graph.add(
        "attention",
        [*operands, mask],
        graph.fresh(f"{name}.attention"),
        source,
        causal=False,
        scale=scale,
    )
    return graph.replace(name, "transpose", [y], permutation=[0, 2, 1, 3])


def _is_turned(node: Node) -> bool:
    return bool(node.attributes.get("transpose_a") or node.attributes.get("transpose_b"))


def _masked(graph: Graph, name: str) -> tuple[str, list[str]]:
    """Return the scores of a sum, and the masks that are added to them."""
    masks = []
    while (node := graph.node(name, "add")) is not None and graph.only_reader(name):
        for scores, mask in (node.inputs, node.inputs[::-1]):
            is_mask = mask in graph.constants or graph.node(mask, "padding_mask") is not None
            if is_mask and mask is not None and graph.shape(str(scores)) == node.shape:
                masks.append(mask)
                name = str(scores)
                break
        else:
            break
    return name, masks


def _mask(graph: Graph, masks: list[str], keys: int, name: str) -> str | None:
    """Return the mask with four dimensions, None for none, and "" for one that attention does not take."""
    if not masks:
        return None
    if len(masks) > 1:
        arrays = [graph.array(each) for each in masks]
        if any(array is None for array in arrays):
            return ""
        total = sum(array for array in arrays if array is not None)
        return _mask(graph, [graph.hold(f"{name}.masks", Constant(np.asarray(total)))], keys, name)
    shape = graph.known_shape(masks[0])
    if len(shape) == 0 or shape[-1] != keys or len(shape) > 4:
        return ""
    array = graph.array(masks[0])
    if array is None:
        return masks[0] if len(shape) == 4 else ""
    if not (array > HIDDEN).any(axis=-1).all():
        return ""  # for a query that sees no key, the parts compute something else
    whole = np.maximum(array, MASKED).reshape((1,) * (4 - len(shape)) + shape)
    return graph.derive(masks[0], ".mask", whole)


def _scaled(graph: Graph, name: str) -> tuple[float, str]:
    """Return a value as a number times a value. The number may be before a transpose."""
    number, operands = factors(graph, name, is_root=graph.only_reader(name) is not None)
    if len(operands) != 1:
        return 1.0, name
    turned = graph.node(operands[0], "transpose")
    if turned is None or not graph.only_reader(operands[0]):
        return number, operands[0]
    inner, values = factors(
        graph, str(turned.inputs[0]), is_root=graph.only_reader(str(turned.inputs[0])) is not None
    )
    if len(values) != 1 or values[0] == turned.inputs[0]:
        return number, operands[0]
    new = graph.add(
        "transpose", values, graph.fresh(f"{operands[0]}.unscaled"), turned.source, **turned.attributes
    )
    return number * inner, new


def causal(graph: Graph, name: str) -> list[str] | None:
    """Leave out a mask that hides the keys after each query, and the one that hides nothing."""
    node = graph.node(name, "attention")
    mask = graph.array(node.inputs[3]) if node is not None and len(node.inputs) > 3 else None
    if node is None or mask is None:
        return None
    if (mask == 0).all():
        return graph.replace(name, "attention", [*node.inputs[:3], None], **node.attributes)
    queries, keys = graph.known_shape(str(node.inputs[0]))[1], graph.known_shape(str(node.inputs[1]))[1]
    if mask.shape != (1, 1, queries, keys) or queries > keys or node.attributes["causal"]:
        return None
    seen = np.tri(queries, keys, keys - queries, dtype=bool)
    one = mask[0, 0]
    if (one[seen] != 0).any() or (one[~seen] > HIDDEN).any():
        return None
    return graph.replace(name, "attention", [*node.inputs[:3], None], **{**node.attributes, "causal": True})
