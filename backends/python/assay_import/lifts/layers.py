"""Linear layers of matrix products, biases of convolutions, and Caffe's scale layer after batch norm."""

from __future__ import annotations

import numpy as np

from ..graph import Graph
from .matching import as_vector, vector


def linear(graph: Graph, name: str) -> list[str] | None:
    """Turn x W with a constant matrix W into linear(x, W^T)."""
    node = graph.node(name, "matmul")
    if node is None or node.attributes.get("transpose_a"):
        return None
    x, weight = (str(operand) for operand in node.inputs)
    held = graph.constants.get(weight)
    if held is None or held.array.ndim != 2 or x in graph.constants:
        return None
    if not node.attributes.get("transpose_b"):
        turned = held.array.T
        weight = graph.derive(weight, ".T", turned, original=held.original, turned=not held.turned)
    return graph.replace(name, "linear", [x, weight, None])


def linear_bias(graph: Graph, name: str) -> list[str] | None:
    """Turn linear(x, W) + b with a vector b into linear(x, W, b)."""
    node = graph.node(name, "add")
    if node is None:
        return None
    for value, bias in (node.inputs, node.inputs[::-1]):
        product = graph.node(value, "linear")
        if product is None or product.inputs[2:] not in ([], [None]) or graph.only_reader(str(value)) != name:
            continue
        if vector(graph, bias, graph.known_shape(str(value))[-1]) is not None and node.shape == product.shape:
            return graph.replace(name, "linear", [*product.inputs[:2], as_vector(graph, str(bias))])
    return None


def convolution_bias(graph: Graph, name: str) -> list[str] | None:
    """Turn convolution(x, W) + b with a number b for each channel into convolution(x, W, b)."""
    node = graph.node(name, "add")
    if node is None:
        return None
    for value, bias in (node.inputs, node.inputs[::-1]):
        product = graph.node(value, "convolution")
        if product is None or product.inputs[2:] not in ([], [None]) or graph.only_reader(str(value)) != name:
            continue
        if vector(graph, bias, graph.known_shape(str(value))[1], after=2) is not None:
            inputs = [*product.inputs[:2], as_vector(graph, str(bias))]
            return graph.replace(name, "convolution", inputs, **product.attributes)
    return None


def batch_norm_scale(graph: Graph, name: str) -> list[str] | None:
    """Turn batch_norm(x) * k + t, with numbers k and t for each channel, into one batch_norm.

    Its weight is weight * k, and its bias is bias * k + t.
    """
    node = graph.node(name, "add")
    if node is None:
        return None
    for value, shift in (node.inputs, node.inputs[::-1]):
        product = graph.node(value, "multiply")
        if product is None or graph.only_reader(str(value)) != name:
            continue
        for normed, scale in (product.inputs, product.inputs[::-1]):
            norm = graph.node(normed, "batch_norm")
            if norm is None or graph.only_reader(str(normed)) != value or norm.shape != node.shape:
                continue
            channels = graph.known_shape(str(normed))[1]
            k, t = (vector(graph, each, channels, after=2) for each in (scale, shift))
            if k is not None and t is not None:
                return _scaled(graph, name, str(normed), str(scale), str(shift), k, t)
    return None


def _scaled(
    graph: Graph, name: str, normed: str, scale: str, shift: str, k: np.ndarray, t: np.ndarray
) -> list[str]:
    norm = graph.nodes[normed]
    weight, bias = str(norm.inputs[1]), str(norm.inputs[2])
    held = [graph.constants[each] for each in (weight, bias, scale, shift)]
    filled = all(each.is_filled and each.original for each in held)
    w, b = (each.array.astype(np.float64) for each in held[:2])
    # If nothing is known of the four, the file's own weight and bias are taken as the products.
    graph.neutral.update({held[2].original: 1, held[3].original: 0} if filled else {})
    products = (w * k).astype(np.float32), (b * k + t).astype(np.float32)
    names = [
        graph.derive(each, ".scaled", product, is_filled=filled, original=old.original if filled else "")
        for each, product, old in zip((weight, bias), products, held[:2], strict=True)
    ]
    return graph.replace(name, "batch_norm", [norm.inputs[0], *names, *norm.inputs[3:]], **norm.attributes)
