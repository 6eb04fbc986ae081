"""The mask of padding, as a file computes it.

It compares its tokens with a number, or has an input that is bound to not_equal(tokens, padding). Each value
that is computed of that has two values, one where a token is padding and one where it is not. Both are known.
If scores get 0 where there is a token and hide the others, padding_mask gives the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..graph import NUMPY_TYPES, Graph, Node
from ..shapes import Shape

LOW = -1e4  # a score as low as this hides a key, as old exporters write it
LARGE_COUNT = 1e6  # no text has as many tokens
MOST_VALUES = 64  # between tokens that are compared and the mask that is made of that
EVALUATED: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "and": np.logical_and,
    "divide": np.true_divide,
    "equal": np.equal,
    "greater": np.greater,
    "greater_or_equal": np.greater_equal,
    "less": np.less,
    "less_or_equal": np.less_equal,
    "maximum": np.maximum,
    "minimum": np.minimum,
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


@dataclass(frozen=True)
class Padding:
    """A value that says which tokens (N, T) are padding."""

    tokens: str
    number: int  # the token that is padding
    two: Two

    def mask(self, graph: Graph, name: str) -> str:
        """Return the op that hides padding. A new one is named after a value."""
        wanted = "padding_mask", [self.tokens], {"padding": self.number}
        for other, node in graph.nodes.items():
            if (node.op, node.inputs, node.attributes) == wanted:
                return other
        mask = graph.fresh(f"{name}.padding_mask")
        return graph.add("padding_mask", [self.tokens], mask, graph.nodes[name].source, padding=self.number)


def padding_of(graph: Graph, name: str) -> Padding | None:
    node = graph.node(name, "not_equal", "equal")
    if node is None or node.shape is None:
        return None
    if node.op == "not_equal":
        dtype = NUMPY_TYPES.get(node.dtype, np.float32)
        two = Two(np.asarray(dtype(0)), np.asarray(dtype(1)), node.shape)
        return Padding(str(node.inputs[0]), int(node.attributes["padding"]), two)
    for tokens, other in (node.inputs, node.inputs[::-1]):
        given, number = graph.inputs.get(str(tokens)), graph.scalar(other)
        if given is None or given.dtype != "int" or given.shape != node.shape or len(node.shape) != 2:
            continue
        if number is not None and number >= 0 and number == int(number):
            return Padding(str(tokens), int(number), Two(np.asarray(True), np.asarray(False), node.shape))
    return None


def padding_mask(graph: Graph, name: str) -> list[str] | None:
    padding = padding_of(graph, name)
    if padding is None:
        return None
    values = values_of(graph, name, padding)
    mask = ""
    found: list[str] = []
    for value, two in values.items():
        for reader in list(graph.readers(value)) if value in graph.nodes else []:
            if (
                reader in values
                or reader not in graph.nodes
                or not _hides(graph, reader, value, two, padding.two.shape)
            ):
                continue
            mask = mask or padding.mask(graph, name)
            found += _masked(graph, reader, value, mask)
    return found if mask else None


def shown_rows(graph: Graph, name: str) -> list[str] | None:
    """Leave out zeros for queries that see no key, as Assay writes attention: the op has them itself."""
    node = graph.node(name, "where")
    turned = graph.node(node.inputs[1], "transpose") if node is not None else None
    made = graph.node(turned.inputs[0], "attention") if turned is not None else None
    mask = graph.node(made.inputs[3], "padding_mask") if made is not None and len(made.inputs) > 3 else None
    if node is None or turned is None or mask is None or graph.scalar(node.inputs[2]) != 0:
        return None
    root, padding = _root_of(graph, str(node.inputs[0]))
    if padding is None or [padding.tokens] != mask.inputs or padding.number != mask.attributes["padding"]:
        return None
    two = values_of(graph, root, padding).get(str(node.inputs[0]))
    rows = (padding.two.shape[0], 1, 1, 1)
    is_of_rows = two is not None and two.shape == rows and bool(two.token) and not bool(two.padding)
    return graph.substitute(name, str(node.inputs[1])) if is_of_rows and node.shape == turned.shape else None


def mean_pool(graph: Graph, name: str) -> list[str] | None:
    """Turn the sum of x over the tokens that count, divided by their number, into the mean over them."""
    node = graph.node(name, "divide")
    total = _summed(graph, node.inputs[0]) if node is not None else None
    product = graph.node(total, "multiply") if total is not None else None
    counted = _summed(graph, _at_least_one(graph, node.inputs[1])) if node is not None else None
    if node is None or product is None or counted is None:
        return None
    root, padding = _root_of(graph, counted)
    if padding is None:
        return None
    values = values_of(graph, root, padding)
    for x, weight in (product.inputs, product.inputs[::-1]):
        shape = graph.shape(str(x)) or ()
        fits = len(shape) == 3 and shape == product.shape and shape[:2] == padding.two.shape
        fits = fits and node.shape == (shape[0], shape[-1])
        if fits and all(_counts(values.get(str(each)), padding) for each in (weight, counted)):
            return graph.replace(name, "mean_pool", [x, padding.mask(graph, root)])
    return None


def _root_of(graph: Graph, name: str) -> tuple[str, Padding | None]:
    """Return the value that a value is computed from, and that says which tokens are padding."""
    stack, seen = [name], {name}
    while stack and len(seen) <= MOST_VALUES:
        found = stack.pop()
        padding = padding_of(graph, found)
        if padding is not None:
            return found, padding
        node = graph.nodes.get(found)
        inputs = [str(each) for each in node.inputs if each is not None] if node is not None else []
        stack += [each for each in inputs if each not in seen]
        seen.update(inputs)
    return "", None


def _summed(graph: Graph, name: str | None) -> str | None:
    """Return the value (N, T, ...) whose sum over T this is."""
    node = graph.node(name, "reduce")
    is_sum = node is not None and node.attributes["kind"] == "sum" and list(node.attributes["axes"]) == [1]
    return str(node.inputs[0]) if node is not None and is_sum else None


def _at_least_one(graph: Graph, name: str | None) -> str | None:
    """Return a count that is kept above 0: of no token the sum is 0, whatever it is divided by."""
    node = graph.node(name, "maximum", "clamp")
    if node is None:
        return None
    if node.op == "clamp":
        least, most = (float(node.attributes[each]) for each in ("least", "most"))
        return str(node.inputs[0]) if 0 < least <= 1 and most >= LARGE_COUNT else None
    for value, other in (node.inputs, node.inputs[::-1]):
        number = graph.scalar(other)
        if number is not None and 0 < number <= 1:
            return str(value)
    return None


def _counts(two: Two | None, padding: Padding) -> bool:
    return (
        two is not None
        and two.shape == (*padding.two.shape, 1)
        and two.token == 1
        and two.padding == 0
        and two.token.dtype == np.float32
    )


def values_of(graph: Graph, name: str, padding: Padding) -> dict[str, Two]:
    """Return the values that have two values, the first of which says which tokens are padding."""
    values = {name: padding.two}
    waiting = [name]
    while waiting:
        for reader in graph.readers(waiting.pop()):
            two = _evaluated(graph, graph.nodes[reader], values) if reader not in values else None
            if two is not None:
                values[reader] = two
                waiting.append(reader)
    return values


def _evaluated(graph: Graph, node: Node, values: dict[str, Two]) -> Two | None:
    given = [values[str(each)] for each in node.inputs if each in values]
    if not given or node.shape is None:
        return None
    if node.op == "expand":
        return given[0] if len(node.shape) == len(given[0].shape) else None
    if node.op == "reshape":
        is_same = [extent for extent in node.shape if extent != 1] == [e for e in given[0].shape if e != 1]
        return Two(given[0].padding, given[0].token, node.shape) if is_same else None
    if node.op == "reduce" and node.attributes["kind"] == "max" and given[0].token >= given[0].padding:
        # Of a row: where all tokens are padding, and where one is none.
        axis = len(given[0].shape) - 1
        is_last = list(node.attributes["axes"]) == [axis] and given[0].shape[1:axis] == (1,) * (axis - 1)
        return Two(given[0].padding, given[0].token, given[0].shape[:-1]) if is_last and axis > 0 else None
    if node.op == "cast":
        dtype = NUMPY_TYPES[node.dtype]
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
                np.asarray(EVALUATED[node.op](*operands)).astype(NUMPY_TYPES.get(node.dtype, np.float32))
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
