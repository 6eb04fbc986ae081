"""One function for each op: it writes the op's node as nodes of ONNX.

docs/reference/operators.md has the contracts. Where ONNX has an op with the same contract, it is written; the
others are written in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from assay_worker import Graph, Node, Numbers, Unsupported, pair, sides
from onnx import TensorProto, helper

MASKED = -1e38  # in place of -inf, whose softmax is NaN where it hides every key


class Writer:
    """The nodes and constants of a model, in the order in which they are added."""

    def __init__(self, graph: Graph, weights: dict[str, np.ndarray]) -> None:
        self.graph, self.weights = graph, weights
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def write(self, node: Node) -> None:
        """Add a node of the graph. Raises Unsupported."""
        if node.op not in OPS:
            raise Unsupported(f"[{node.op}] node '{node.name}': this op is not written as ONNX")
        operands = [name and str(name) for name in node.inputs]
        OPS[node.op](self, *operands, out=str(node.outputs[0]), **node.attributes)

    def node(self, kind: str, *inputs: str | None, out: str = "", **attributes: Any) -> str:
        """Add a node of ONNX with one result; return the name of that."""
        return self.node_of_several(kind, *inputs, outs=[out or self._name(kind)], **attributes)[0]

    def node_of_several(
        self, kind: str, *inputs: str | None, outs: list[str], **attributes: Any
    ) -> list[str]:
        names = [name or "" for name in inputs]
        self.nodes.append(
            helper.make_node(kind, names, outs, name=f"{outs[0] or outs[-1]}/{kind}", **attributes)
        )
        return outs

    def constant(self, value: np.ndarray | np.generic) -> str:
        name = self._name("constant")
        self.constants[name] = np.asarray(value)
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.graph.values[name].shape

    def _name(self, kind: str) -> str:
        # A slash at the begin: no value of a graph is called so.
        return f"/{kind}_{len(self.nodes)}_{len(self.constants)}"


def plain(kind: str, **renamed: str) -> Callable[..., None]:
    """The op of ONNX with the same operands, attributes and contract; `renamed` are names of attributes."""

    def write(w: Writer, *inputs: str, out: str, **attributes: Any) -> None:
        w.node(
            kind, *inputs, out=out, **{renamed.get(name, name): value for name, value in attributes.items()}
        )

    return write


def moves(stride: Numbers, padding: Numbers) -> dict[str, tuple[int, ...]]:
    """Return how a window moves. ONNX has the paddings before both axes, then those after them."""
    (top, bottom), (left, right) = sides(padding)
    return {"strides": pair(stride), "pads": (top, left, bottom, right)}


def convolution(
    w: Writer,
    x: str,
    weight: str,
    bias: str | None = None,
    *,
    out: str,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers = 1,
    groups: int = 1,
) -> None:
    inputs = [x, weight, bias] if bias else [x, weight]
    w.node(
        "Conv",
        *inputs,
        out=out,
        **moves(stride, padding),
        dilations=pair(dilation),
        group=groups,
    )


def linear(w: Writer, x: str, weight: str, bias: str | None = None, *, out: str) -> None:
    if len(w.shape(x)) == 2:
        inputs = [x, weight, bias] if bias else [x, weight]
        w.node("Gemm", *inputs, out=out, transB=1)
        return
    held = w.weights.get(weight)
    turned = w.node("Transpose", weight, perm=[1, 0]) if held is None else w.constant(held.T)
    if bias:
        w.node("Add", w.node("MatMul", x, turned), bias, out=out)
    else:
        w.node("MatMul", x, turned, out=out)


def max_pool(w: Writer, x: str, *, out: str, kernel: Numbers, stride: Numbers, padding: Numbers) -> None:
    w.node("MaxPool", x, out=out, kernel_shape=pair(kernel), **moves(stride, padding))


def average_pool(
    w: Writer,
    x: str,
    *,
    out: str,
    kernel: Numbers,
    stride: Numbers,
    padding: Numbers,
    count_padding: bool = True,
) -> None:
    w.node(
        "AveragePool",
        x,
        out=out,
        kernel_shape=pair(kernel),
        **moves(stride, padding),
        count_include_pad=int(count_padding),
    )


def silu(w: Writer, x: str, *, out: str) -> None:
    w.node("Mul", x, w.node("Sigmoid", x), out=out)


def clamp(w: Writer, x: str, *, out: str, least: float, most: float) -> None:
    w.node("Clip", x, w.number(least), w.number(most), out=out)


def prelu(w: Writer, x: str, slope: str, *, out: str) -> None:
    # ONNX broadcasts by the last dimensions.
    shape = (-1, *[1] * (len(w.shape(x)) - 2))
    held = w.weights.get(slope)
    turned = w.node("Reshape", slope, w.integers(*shape)) if held is None else w.constant(held.reshape(shape))
    w.node("PRelu", x, turned, out=out)


def batch_norm(
    w: Writer, x: str, *given: str, out: str, epsilon: float, momentum: float, training: bool
) -> None:
    if training:
        raise Unsupported("[batch_norm] a runtime normalises by running statistics only")
    w.node("BatchNormalization", x, *given, out=out, epsilon=epsilon, momentum=momentum)


def layer_norm(w: Writer, x: str, weight: str, bias: str, *, out: str, epsilon: float) -> None:
    w.node("LayerNormalization", x, weight, bias, out=out, axis=-1, epsilon=epsilon)


def rms_norm(w: Writer, x: str, weight: str, *, out: str, epsilon: float) -> None:
    mean = w.node("ReduceMean", w.node("Mul", x, x), w.integers(-1))
    root = w.node("Sqrt", w.node("Add", mean, w.number(epsilon)))
    w.node("Mul", w.node("Div", x, root), weight, out=out)


def reshape(w: Writer, x: str, *, out: str, shape: Sequence[int]) -> None:
    w.node("Reshape", x, w.integers(*shape), out=out)


def slice_(w: Writer, x: str, *, out: str, axis: int, begin: int, end: int) -> None:
    w.node("Slice", x, w.integers(begin), w.integers(end), w.integers(axis), out=out)


def reduce(w: Writer, x: str, *, out: str, kind: str, axes: Sequence[int]) -> None:
    name = {"sum": "ReduceSum", "mean": "ReduceMean", "max": "ReduceMax"}[kind]
    w.node(name, x, w.integers(*axes), out=out, keepdims=0)


def matmul(
    w: Writer, a: str, b: str, *, out: str, transpose_a: bool = False, transpose_b: bool = False
) -> None:
    def turned(name: str, *, is_turned: bool) -> str:
        order = list(range(len(w.shape(name))))
        order[-2:] = order[:-3:-1]
        return w.node("Transpose", name, perm=order) if is_turned else name

    w.node("MatMul", turned(a, is_turned=transpose_a), turned(b, is_turned=transpose_b), out=out)


def normalise(w: Writer, x: str, *, out: str, axes: Sequence[int], epsilon: float) -> None:
    norm = w.node("ReduceL2", x, w.integers(*axes))
    w.node("Div", x, w.node("Max", norm, w.number(epsilon)), out=out)


def attention(
    w: Writer,
    q: str,
    k: str,
    v: str,
    mask: str | None = None,
    *,
    out: str,
    causal: bool,
    scale: float,
) -> None:
    samples, queries, heads, width = w.shape(q)
    _, keys, groups, _ = w.shape(k)

    def by_head(name: str, order: list[int]) -> str:
        """Return (N, H, ...) of keys or values (N, T, G, D): a group serves several heads."""
        turned = w.node("Transpose", name, perm=order)
        if groups == heads:
            return turned
        extents = [(samples, keys, groups, width)[axis] for axis in order]
        spread = [samples, groups, heads // groups, *extents[2:]]
        apart = w.node("Expand", w.node("Unsqueeze", turned, w.integers(2)), w.integers(*spread))
        return w.node("Reshape", apart, w.integers(samples, heads, *extents[2:]))

    scores = w.node("MatMul", w.node("Transpose", q, perm=[0, 2, 1, 3]), by_head(k, [0, 2, 3, 1]))
    scores = w.node("Mul", scores, w.number(scale or 1 / math.sqrt(width)))
    hidden = 0.0 if not causal else np.where(np.tri(queries, keys, keys - queries, dtype=bool), 0, MASKED)
    if causal:
        scores = w.node("Add", scores, w.constant(np.asarray(hidden, np.float32)))
    if mask:
        scores = w.node("Add", scores, w.node("Max", mask, w.number(MASKED)))
    y = w.node("MatMul", w.node("Softmax", scores, axis=-1), by_head(v, [0, 2, 1, 3]))
    if mask or (causal and queries > keys):
        # A query that sees no key gives zeros.
        seen = w.constant(
            np.asarray(hidden, np.float32)[None, None] if causal else np.zeros((1, 1, 1, 1), np.float32)
        )
        seen = w.node("Add", seen, mask) if mask else seen
        most = w.node("ReduceMax", seen, w.integers(-1))
        y = w.node("Where", w.node("Greater", most, w.number(MASKED)), y, w.number(0))
    w.node("Transpose", y, perm=[0, 2, 1, 3], out=out)


def rotary(w: Writer, x: str, *, out: str, base: float, interleaved: bool, inverse: bool = False) -> None:
    samples, length, heads, width = w.shape(x)
    half = width // 2
    angles = np.outer(np.arange(length), base ** -(np.arange(0, width, 2) / width))[:, None]
    cos = w.constant(np.cos(angles).astype(np.float32))
    sin = w.constant((np.sin(angles) * (-1 if inverse else 1)).astype(np.float32))

    def part(begin: int, end: int, step: int) -> str:
        return w.node("Slice", x, w.integers(begin), w.integers(end), w.integers(3), w.integers(step))

    a, b = (part(0, width, 2), part(1, width, 2)) if interleaved else (part(0, half, 1), part(half, width, 1))
    first = w.node("Sub", w.node("Mul", a, cos), w.node("Mul", b, sin))
    second = w.node("Add", w.node("Mul", a, sin), w.node("Mul", b, cos))
    if not interleaved:
        w.node("Concat", first, second, axis=3, out=out)
        return
    apart = [w.node("Unsqueeze", each, w.integers(4)) for each in (first, second)]
    w.node("Reshape", w.node("Concat", *apart, axis=4), w.integers(samples, length, heads, width), out=out)


def padding_mask(w: Writer, tokens: str, *, out: str, padding: int) -> None:
    is_padding = w.node("Equal", tokens, w.constant(np.int32(padding)))
    mask = w.node("Where", is_padding, w.number(-np.inf), w.number(0))
    w.node("Unsqueeze", mask, w.integers(1, 2), out=out)


def mean_pool(w: Writer, x: str, mask: str | None = None, *, out: str) -> None:
    steps = w.integers(1)
    if not mask:
        w.node("ReduceMean", x, steps, keepdims=0, out=out)
        return
    samples, length, _ = w.shape(x)
    column = w.node("Reshape", mask, w.integers(samples, length, 1))
    counted = w.node("Cast", w.node("Greater", column, w.number(MASKED)), to=TensorProto.FLOAT)
    total = w.node("ReduceSum", w.node("Mul", x, counted), steps, keepdims=0)
    count = w.node("Max", w.node("ReduceSum", counted, steps, keepdims=0), w.number(1))
    w.node("Div", total, count, out=out)


def embedding(w: Writer, indices: str, weight: str, *, out: str, sparse_gradient: bool = False) -> None:
    # ONNX counts negative indices from the end, and refuses others outside of the table: here all of them
    # read a further row of zeros.
    rows, columns = w.shape(weight)
    held = w.weights.get(weight)
    zeros = np.zeros((1, columns), np.float32)
    table = (
        w.node("Concat", weight, w.constant(zeros), axis=0)
        if held is None
        else w.constant(np.concatenate([held, zeros]))
    )
    last = w.constant(np.int32(rows))
    outside = w.node("Less", indices, w.constant(np.int32(0)))
    w.node("Gather", table, w.node("Where", outside, last, w.node("Min", indices, last)), axis=0, out=out)


def lstm(w: Writer, x: str, weight: str, recurrent: str, bias: str, *, out: str, last: bool) -> None:
    missing = [name for name in (weight, recurrent, bias) if name not in w.weights]
    if missing:
        raise Unsupported(
            f"[lstm] {missing[0]} must be a constant: the order of its gates is another one in ONNX"
        )
    units = w.shape(recurrent)[1]

    def in_their_order(name: str) -> np.ndarray:  # (i, f, g, o) becomes (i, o, f, c)
        i, f, g, o = np.split(w.weights[name], 4)
        return np.concatenate([i, o, f, g])[None]

    both = np.concatenate([in_their_order(bias), np.zeros((1, 4 * units), np.float32)], axis=1)
    given = [w.constant(each) for each in (in_their_order(weight), in_their_order(recurrent), both)]
    steps_first = w.node("Transpose", x, perm=[1, 0, 2])
    every, final = w.node_of_several(
        "LSTM",
        steps_first,
        *given,
        outs=["" if last else f"{out}/all", f"{out}/last" if last else ""],
        hidden_size=units,
    )
    if last:
        w.node("Squeeze", final, w.integers(0), out=out)
    else:
        w.node("Transpose", w.node("Squeeze", every, w.integers(1)), perm=[1, 0, 2], out=out)


def dropout(w: Writer, x: str, mask: str | None = None, *, out: str, rate: float) -> None:
    if mask:
        raise Unsupported("[dropout] a runtime draws no masks")
    w.node("Identity", x, out=out)


OPS: dict[str, Callable[..., None]] = {
    "add": plain("Add"),
    "attention": attention,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "clamp": clamp,
    "concat": plain("Concat"),
    "convolution": convolution,
    "divide": plain("Div"),
    "dot": plain("MatMul"),
    "dropout": dropout,
    "elu": plain("Elu"),
    "embedding": embedding,
    "flatten": plain("Flatten"),
    "gelu": plain("Gelu"),
    "hard_sigmoid": plain("HardSigmoid"),
    "hard_swish": plain("HardSwish"),
    "layer_norm": layer_norm,
    "leaky_relu": plain("LeakyRelu", slope="alpha"),
    "linear": linear,
    "lstm": lstm,
    "local_response_norm": plain("LRN"),
    "matmul": matmul,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "multiply": plain("Mul"),
    "normalise": normalise,
    "padding_mask": padding_mask,
    "prelu": prelu,
    "reduce": reduce,
    "relu": plain("Relu"),
    "reshape": reshape,
    "rms_norm": rms_norm,
    "rotary": rotary,
    "selu": plain("Selu"),
    "sigmoid": plain("Sigmoid"),
    "silu": silu,
    "slice": slice_,
    "softmax": plain("Softmax"),
    "softplus": plain("Softplus"),
    "softsign": plain("Softsign"),
    "subtract": plain("Sub"),
    "tanh": plain("Tanh"),
    "transpose": plain("Transpose", permutation="perm"),
}
