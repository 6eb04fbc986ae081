"""One function for each op of ONNX: it writes the node as ops of Assay, or as parts that the lifts look for.

It raises Missing with the feature that no op of Assay has. assay_onnx/ops.py writes the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .calls import add_prelu, clamped, over_images
from .errors import Missing
from .limits import BOUND
from .onnx_attention import attention
from .onnx_call import Call
from .onnx_recurrent import lstm
from .onnx_shapes import (
    concat,
    expand,
    flattened,
    gather,
    reduce,
    reshape,
    sequence_at,
    slice_,
    split,
    split_to_sequence,
    squeezed,
    to_shape,
    transpose,
    unsqueezed,
)
from .onnx_windows import average_pool, convolution, global_pool, max_pool
from .shapes import broadcast

Op = Callable[[Call], None]


def plain(op: str, **defaults: float) -> Op:
    """The op of Assay with the same contract; `defaults` are ONNX's defaults of its attributes."""

    def read(c: Call) -> None:
        c.floats()
        named = {"slope": "alpha"}
        attributes = {name: c.number(named.get(name, name), value) for name, value in defaults.items()}
        c.result(op, c.input(0), out="", dtype="f32", **attributes)

    return read


def binary(op: str, dtype: str = "") -> Op:
    """An op of two operands. Its result has their type, or the one that is given."""

    def read(c: Call) -> None:
        kinds = {c.graph.dtype(c.input(i)) for i in range(2)}
        if len(kinds) > 1:
            raise Missing(f"{c.source.op}: of {' and '.join(sorted(kinds))}")
        c.result(op, *elementwise(c), dtype=dtype or kinds.pop())

    return read


def elementwise(c: Call) -> list[str | None]:
    """Return the operands. A constant that repeats one row for each sample becomes that row."""
    if c.opset < 7 and c.attributes.get("broadcast") and "axis" in c.attributes:
        ranks = [len(c.shape(i)) for i in range(2)]
        if c.axis(int(c.attributes["axis"])) + ranks[1] != ranks[0]:
            raise Missing(f"{c.source.op}: broadcast along an axis, as before opset 7")
    shape = broadcast([c.shape(i) for i in range(len(c.inputs))])
    return [None if name is None else one_row(c, name, shape) for name in c.inputs]


def one_row(c: Call, name: str, shape: tuple[int, ...]) -> str:
    held = c.graph.constants.get(name)
    if held is None or held.original or held.array.ndim != len(shape) or not shape:
        return name
    array = held.array
    if array.shape[0] != c.batch or shape[0] != c.batch or not (array == array[:1]).all():
        return name
    return c.graph.derive(name, ".row", array[:1])


def many(op: str) -> Op:
    """Sum of several operands, two at a time."""

    def read(c: Call) -> None:
        total, dtype = c.input(0), c.graph.dtype(c.input(0))
        if any(c.graph.dtype(c.input(i)) != dtype for i in range(len(c.inputs))):
            raise Missing(f"{c.source.op}: of several types")
        for i in range(1, len(c.inputs) - 1):
            total = c.step(op, total, c.input(i), dtype=dtype)
        if len(c.inputs) == 1:
            c.same(total)
        else:
            c.result(op, total, c.input(len(c.inputs) - 1), dtype=dtype)

    return read


def gemm(c: Call) -> None:
    c.floats()
    alpha, beta = c.number("alpha", 1), c.number("beta", 1)
    x, is_turned = c.input(0), bool(c.attributes.get("transB"))
    if c.attributes.get("transA"):
        x = c.step("transpose", x, permutation=[1, 0])
    bias = c.optional(2)
    weight = c.graph.array(c.input(1))
    columns = c.shape(1)[0 if is_turned else 1]
    if (
        weight is None
        or alpha != 1
        or beta != 1
        or (bias and c.graph.shape(bias) not in ((columns,), (1, columns)))
    ):
        if alpha != 1 or (bias and beta != 1):
            raise Missing("Gemm: alpha or beta that is not 1")
        product = (c.step if bias else c.result)(
            "matmul", x, c.input(1), transpose_a=False, transpose_b=is_turned
        )
        if bias:
            c.result("add", product, bias)
        return
    if bias and len(c.graph.known_shape(bias)) == 2:
        vector = c.graph.array(bias)
        if vector is None:
            raise Missing("Gemm: a bias that is computed from the input")
        held = c.graph.constants[bias]
        bias = c.graph.derive(bias, ".vector", vector.reshape(-1), original=held.original)
    c.result("linear", x, c.input(1) if is_turned else c.turned(1), bias)


def matmul(c: Call) -> None:
    c.floats()
    c.result("matmul", c.input(0), c.input(1), transpose_a=False, transpose_b=False)


def batch_norm(c: Call) -> None:
    c.floats()
    rank = len(c.shape())
    if rank not in (3, 4):
        raise Missing(f"batch_norm: {rank} dimensions")
    if not c.attributes.get("spatial", 1):
        raise Missing("batch_norm: over each position")
    if c.attributes.get("training_mode") or (c.opset < 7 and not c.attributes.get("is_test")):
        raise Missing("batch_norm: in training mode (export the model in eval mode)")
    for i in range(1, 5):
        c.constant(i)
    over_images(
        c,
        "batch_norm",
        *[c.input(i) for i in range(5)],
        epsilon=c.number("epsilon", 1e-5),
        momentum=c.number("momentum", 0.9),
    )


def local_response_norm(c: Call) -> None:
    c.floats()
    size = c.attributes.get("size")
    if len(c.shape()) != 4 or not isinstance(size, int) or size < 1 or size % 2 == 0:
        raise Missing(f"LRN: {len(c.shape())} dimensions, a size of {size}")
    c.result(
        "local_response_norm",
        c.input(0),
        size=size,
        alpha=c.number("alpha", 1e-4),
        beta=c.number("beta", 0.75),
        bias=c.number("bias", 1.0),
    )


def prelu(c: Call) -> None:
    c.floats()
    c.constant(1)
    held = c.graph.constants[c.input(1)]
    # Before opset 7 one for each channel, since then NumPy's broadcasting.
    array = held.array.reshape(-1, *[1] * (len(c.shape()) - 2)) if c.opset < 7 else held.array
    if array.ndim > len(c.shape()):
        raise Missing(f"PRelu: slopes of {array.ndim} dimensions")
    extents = (1,) * (len(c.shape()) - array.ndim) + array.shape
    is_of_channels = len(extents) > 1 and array.size in (1, extents[1])
    slope = c.graph.derive(
        c.input(1),
        ".slope",
        array.reshape(-1) if is_of_channels else array,
        original=held.original,
        role="parameter",
    )
    if is_of_channels:
        c.result("prelu", c.input(0), slope)
    else:
        add_prelu(c, c.input(0), slope)


def layer_norm(c: Call) -> None:
    c.floats()
    if c.axis(int(c.attributes.get("axis", -1))) != len(c.shape()) - 1:
        raise Missing("layer_norm: over several dimensions")
    scale, shift = c.input(1), c.optional(2)
    shift = shift or c.hold("shift", np.zeros(c.shape()[-1], np.float32))
    c.result("layer_norm", c.input(0), scale, shift, epsilon=c.number("epsilon", 1e-5))


def rms_norm(c: Call) -> None:
    c.floats()
    if c.axis(int(c.attributes.get("axis", -1))) != len(c.shape()) - 1:
        raise Missing("rms_norm: over several dimensions")
    c.result("rms_norm", c.input(0), c.input(1), epsilon=c.number("epsilon", 1e-5))


def gelu(c: Call) -> None:
    c.floats()
    c.result("gelu", c.input(0), approximate=c.text("approximate", "none"))


def clip(c: Call) -> None:
    c.floats()
    least, most = c.number("min", -math.inf, 1), c.number("max", math.inf, 2)
    if least == 0 and most >= BOUND:
        c.result("relu", c.input(0))
        return
    if not least < most:
        raise Missing("Clip: bounds that are equal or exchanged")
    c.result("clamp", c.input(0), **clamped(least, most))


def softmax(op: str) -> Op:
    def read(c: Call) -> None:
        c.floats()
        x, shape = c.input(0), c.shape()
        axis = c.axis(int(c.attributes.get("axis", 1 if c.opset < 13 else -1)))
        last = len(shape) - 1
        if c.opset < 13 and math.prod(shape[axis + 1 :]) > 1:
            # Over all dimensions from the axis on.
            flat = c.step("reshape", x, shape=[*shape[:axis], math.prod(shape[axis:])])
            c.result("reshape", c.step(op, flat), shape=list(shape))
        elif axis == last:
            c.result(op, x)
        elif math.prod(shape[axis + 1 :]) == 1:
            c.result(
                "reshape", c.step(op, c.step("reshape", x, shape=list(shape[: axis + 1]))), shape=list(shape)
            )
        else:
            order = [i for i in range(last + 1) if i != axis] + [axis]
            back = [order.index(i) for i in range(last + 1)]
            turned = c.step(op, c.step("transpose", x, permutation=order))
            c.result("transpose", turned, permutation=back)

    return read


def dropout(c: Call) -> None:
    c.floats(0)
    rate = c.number("ratio", 0.5, 1)
    if rate == 0:
        c.same(c.input(0))
        return
    if not 0 < rate < 1:
        raise Missing(f"dropout: a rate of {rate:g}")
    c.result("dropout", c.input(0), rate=rate)


def cast(c: Call) -> None:
    source = c.graph.dtype(c.input(0))
    to = {1: "f32", 6: "int", 7: "int", 9: "bool"}.get(int(c.attributes.get("to", 0)))
    if to is None:
        raise Missing(f"Cast: {source} to another type")
    if source == to:
        c.same(c.input(0))
    else:
        c.result("cast", c.input(0), dtype=to)


def cast_like(c: Call) -> None:
    if c.graph.dtype(c.input(0)) != c.graph.dtype(c.input(1)):
        raise Missing("CastLike: to another type")
    c.same(c.input(0))


def where(c: Call) -> None:
    c.result("where", *elementwise(c), dtype=c.graph.dtype(c.input(1)))


def normalise(c: Call) -> None:
    c.floats()
    if int(c.attributes.get("p", 2)) != 2:
        raise Missing("LpNormalization: another norm than the second")
    axis = c.axis(int(c.attributes.get("axis", -1)))
    c.result("normalise", c.input(0), axes=[axis], epsilon=1e-12)


OPS: dict[str, Op] = {
    "Abs": plain("absolute"),
    "Add": binary("add"),
    "And": binary("and", "bool"),
    "Attention": attention,
    "AveragePool": average_pool,
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "CastLike": cast_like,
    "Clip": clip,
    "Concat": concat,
    "Conv": convolution,
    "Div": binary("divide"),
    "Dropout": dropout,
    "Elu": plain("elu", alpha=1.0),
    "Equal": binary("equal", "bool"),
    "Erf": plain("erf"),
    "Exp": plain("exp"),
    "Expand": expand,
    "Flatten": to_shape(flattened),
    "Gather": gather,
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": global_pool("mean"),
    "GlobalMaxPool": global_pool("max"),
    "Greater": binary("greater", "bool"),
    "GreaterOrEqual": binary("greater_or_equal", "bool"),
    "HardSigmoid": plain("hard_sigmoid", alpha=0.2, beta=0.5),
    "HardSwish": plain("hard_swish"),
    "LRN": local_response_norm,
    "LSTM": lstm,
    "LayerNormalization": layer_norm,
    "LeakyRelu": plain("leaky_relu", slope=0.01),
    "Less": binary("less", "bool"),
    "LessOrEqual": binary("less_or_equal", "bool"),
    "Log": plain("log"),
    "LogSoftmax": softmax("log_softmax"),
    "LpNormalization": normalise,
    "MatMul": matmul,
    "Max": many("maximum"),
    "MaxPool": max_pool,
    "Min": many("minimum"),
    "Mul": binary("multiply"),
    "Neg": plain("negate"),
    "Not": lambda c: c.result("not", c.input(0), dtype="bool"),
    "Or": binary("or", "bool"),
    "PRelu": prelu,
    "Pow": binary("power"),
    "RMSNormalization": rms_norm,
    "Reciprocal": plain("reciprocal"),
    "ReduceMax": reduce("max"),
    "ReduceMean": reduce("mean"),
    "ReduceSum": reduce("sum"),
    "Relu": plain("relu"),
    "Reshape": reshape,
    "Selu": plain("selu"),
    "SequenceAt": sequence_at,
    "Sigmoid": plain("sigmoid"),
    "Slice": slice_,
    "Softmax": softmax("softmax"),
    "Softplus": plain("softplus"),
    "Softsign": plain("softsign"),
    "Split": split,
    "SplitToSequence": split_to_sequence,
    "Sqrt": plain("sqrt"),
    "Squeeze": to_shape(squeezed),
    "Sub": binary("subtract"),
    "Sum": many("add"),
    "Tanh": plain("tanh"),
    "Transpose": transpose,
    "Unsqueeze": to_shape(unsqueezed),
    "Where": where,
}
