"""One function for each op of torch.export: it writes the node as ops of Assay, or as parts for the lifts.

The names of arguments are those of torch's native_functions.yaml. Missing says what no op of Assay has.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import limits
from .calls import add_prelu, clamped, over_images
from .errors import Missing
from .graph import NUMPY_TYPES, Constant
from .limits import BOUND
from .pt2_attention import attention
from .pt2_call import Call
from .pt2_recurrent import lstm
from .pt2_shapes import (
    SCALARS,
    concat,
    equal_parts,
    expand,
    flatten,
    narrow,
    parts_of_size,
    permute,
    reduce,
    reshape,
    select,
    slice_,
    split,
    squeeze,
    to_type,
    transpose,
    unchanged,
    unflatten,
    unsqueeze,
)
from .pt2_windows import adaptive, average_pool, convolution, max_pool
from .shapes import broadcast

Op = Callable[[Call], None]


def plain(op: str, **attributes: float) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        c.result(op, c.tensor("self"), out="", dtype="f32", **attributes)

    return read


def binary(op: str, exchanged: bool = False, dtype: str = "") -> Op:
    """An op of two operands. The second may be a number."""

    def read(c: Call) -> None:
        if c.number("alpha", 1) != 1 or c.get("rounding_mode") is not None:
            raise Missing(f"{c.target}: with alpha or rounding")
        operands = [c.tensor("self"), operand(c, "other")]
        kinds = {c.graph.dtype(name) for name in operands[: 2 if c.optional("other") else 1]}
        if not kinds <= {"f32"} and len(kinds) > 1:
            raise Missing(f"{c.target}: of {' and '.join(sorted(kinds))}")
        operands = [one_row(c, name, operands) for name in operands]
        c.result(op, *(operands[::-1] if exchanged else operands), dtype=dtype or kinds.pop())

    return read


def logical(op: str) -> Op:
    """An op of truth values; torch's bitwise ops are that, too, if their operands are."""

    def read(c: Call) -> None:
        names = [c.tensor("self"), *([c.tensor("other")] if op != "not" else [])]
        if {c.graph.dtype(name) for name in names} != {"bool"}:
            raise Missing(f"{c.target}: of values that are not true or false")
        c.result(op, *names, dtype="bool")

    return read


def not_equal(c: Call) -> None:
    equal = c.step("equal", c.tensor("self"), operand(c, "other"), dtype="bool")
    c.result("not", equal, dtype="bool")


def filled(value: float | None) -> Op:
    """A constant of the shape of a value: one row, if that has one for each sample."""

    def read(c: Call) -> None:
        shape, fill = c.shape(), c.get("fill_value") if value is None else value
        name = c.graph.dtype(c.tensor("self"))
        kind = name if c.get("dtype") is None else SCALARS.get(c.get("dtype"))
        if kind is None or isinstance(fill, bool) or not isinstance(fill, (int, float)):
            raise Missing(f"{c.target}: of another type")
        rows = (1, *shape[1:]) if shape and shape[0] == c.batch else shape
        if math.prod(rows) > limits.FOLDED_ELEMENTS:
            raise Missing(f"{c.target}: of {math.prod(rows)} elements")
        c.same(c.hold("filled", np.full(rows, fill, NUMPY_TYPES[kind])))

    return read


def operand(c: Call, name: str) -> str:
    """Return a value, or a number as one."""
    found = c.optional(name)
    return found if found is not None else c.hold(name, np.array(c.number(name, math.nan), np.float32))


def one_row(c: Call, name: str, operands: list[str]) -> str:
    """Return one row of a constant that repeats it for each sample."""
    held = c.graph.constants.get(name)
    shape = broadcast([c.graph.known_shape(each) for each in operands])
    if held is None or held.role == "parameter" or held.array.ndim != len(shape) or not shape:
        return name
    array = held.array
    repeats = array.shape[0] == c.batch == shape[0] and name not in c.state.renamed.values()
    return c.graph.derive(name, ".row", array[:1]) if repeats and (array == array[:1]).all() else name


def linear(c: Call) -> None:
    c.floats("input", "weight", "bias")
    c.result("linear", c.tensor("input"), matrix(c, "weight"), c.optional("bias"))


def matrix(c: Call, name: str) -> str:
    if c.graph.array(c.tensor(name)) is None:
        raise Missing(f"{c.target}: computed weights")
    return c.tensor(name)


def addmm(c: Call) -> None:
    if c.number("alpha", 1) != 1 or c.number("beta", 1) != 1:
        raise Missing(f"{c.target}: alpha or beta that is not 1")
    product = c.step("matmul", c.tensor("mat1"), c.tensor("mat2"), transpose_a=False, transpose_b=False)
    c.result("add", product, c.tensor("self"))


def matmul(second: str) -> Op:
    def read(c: Call) -> None:
        c.floats("self", second)
        c.result("matmul", c.tensor("self"), c.tensor(second), transpose_a=False, transpose_b=False)

    return read


def batch_norm(c: Call) -> None:
    rank = len(c.shape("input"))
    if rank not in (3, 4):
        raise Missing(f"batch_norm: {rank} dimensions")
    if not c.optional("running_mean") or not c.optional("running_var"):
        raise Missing("batch_norm: without running statistics")
    channels = c.shape("input")[1]
    names = [c.optional("weight"), c.optional("bias")]
    for i, kind in enumerate((np.ones, np.zeros)):
        if names[i] is None:
            names[i] = c.graph.hold(
                f"{c.out}.{('weight', 'bias')[i]}", Constant(kind(channels, np.float32), role="constant")
            )
    if not c.get("training", False):
        c.state.modes["eval"] += 1
    over_images(
        c,
        "batch_norm",
        c.tensor("input"),
        *names,
        c.tensor("running_mean"),
        c.tensor("running_var"),
        epsilon=c.number("eps", 1e-5),
        momentum=round(1 - c.number("momentum", 0.1), 12),
    )


def layer_norm(c: Call) -> None:
    c.floats("input")
    shape = c.shape("input")
    if c.ints("normalized_shape") != [shape[-1]]:
        raise Missing("layer_norm: over several dimensions")
    names = [c.optional("weight"), c.optional("bias")]
    for i, kind in enumerate((np.ones, np.zeros)):
        if names[i] is None:
            fixed = Constant(kind(shape[-1], np.float32), role="constant")
            names[i] = c.graph.hold(f"{c.out}.{('weight', 'bias')[i]}", fixed)
    c.result("layer_norm", c.tensor("input"), *names, epsilon=c.number("eps", 1e-5))


def rms_norm(c: Call) -> None:
    shape = c.shape("input")
    if c.ints("normalized_shape") != [shape[-1]]:
        raise Missing("rms_norm: over several dimensions")
    scale = c.optional("weight") or c.hold("scale", np.ones(shape[-1], np.float32), role="constant")
    c.result("rms_norm", c.tensor("input"), scale, epsilon=c.number("eps", float(np.finfo(np.float32).eps)))


def embedding(c: Call) -> None:
    if c.graph.dtype(c.tensor("indices")) != "int":
        raise Missing("embedding: by values that are not whole numbers")
    c.result("embedding", c.tensor("indices"), matrix(c, "weight"))


def gelu(c: Call) -> None:
    c.floats("self")
    c.result("gelu", c.tensor("self"), approximate=str(c.get("approximate", "none")))


def clamp(least: float | None = None, most: float | None = None) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        low = least if least is not None else c.number("min_val", c.number("min", -math.inf))
        high = most if most is not None else c.number("max_val", c.number("max", math.inf))
        if low == 0 and high >= BOUND:
            c.result("relu", c.tensor("self"))
        elif not low < high:
            raise Missing(f"{c.target}: bounds that are equal or exchanged")
        else:
            c.result("clamp", c.tensor("self"), **clamped(low, high))

    return read


def prelu(c: Call) -> None:
    """One slope, or one for each channel."""
    c.floats("self", "weight")
    weight, rank = c.tensor("weight"), len(c.shape())
    held = c.graph.constants.get(weight)
    if held is None:
        raise Missing("prelu: by a computed slope")
    slope = c.graph.derive(weight, ".slope", held.array.reshape(-1), original=held.original, role="parameter")
    if rank > 1:
        c.result("prelu", c.tensor("self"), slope)
    else:
        add_prelu(c, c.tensor("self"), slope)


def leaky_relu(c: Call) -> None:
    c.result("leaky_relu", c.tensor("self"), slope=c.number("negative_slope", 0.01))


def elu(c: Call) -> None:
    if c.number("scale", 1) != 1 or c.number("input_scale", 1) != 1:
        raise Missing(f"{c.target}: scaled")
    c.result("elu", c.tensor("self"), alpha=c.number("alpha", 1))


def softplus(c: Call) -> None:
    if c.number("beta", 1) != 1 or c.number("threshold", 20) < 20:
        raise Missing("softplus: another beta or threshold")
    c.result("softplus", c.tensor("self"))


def power(c: Call) -> None:
    c.floats("self")
    c.result("power", c.tensor("self"), operand(c, "exponent"))


def inverse_root(c: Call) -> None:
    c.floats("self")
    c.result("reciprocal", c.step("sqrt", c.tensor("self")))


def softmax(op: str) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        rank = len(c.shape())
        axis = c.axis(c.get("dim", -1))
        if axis == rank - 1:
            c.result(op, c.tensor("self"))
            return
        order = [i for i in range(rank) if i != axis] + [axis]
        turned = c.step(op, c.step("transpose", c.tensor("self"), permutation=order))
        c.result("transpose", turned, permutation=[order.index(i) for i in range(rank)])

    return read


def dropout(c: Call) -> None:
    rate = c.number("p", 0.5)
    if not 0 <= rate < 1:
        raise Missing(f"dropout: a rate of {rate:g}")
    if rate == 0:
        c.same(c.tensor("input"))
        return
    if not c.get("train", False):
        c.state.modes["eval"] += 1
    c.result("dropout", c.tensor("input"), rate=rate)


def where(c: Call) -> None:
    c.result("where", c.tensor("condition"), operand(c, "self"), operand(c, "other"), dtype=chosen_type(c))


def chosen_type(c: Call) -> str:
    """Return the type of one of two values, one of which may be a number."""
    kinds = {c.graph.dtype(name) for name in (c.optional("self"), c.optional("other")) if name}
    if any(isinstance(c.get(name), float) for name in ("self", "other")):
        kinds.add("f32")
    if len(kinds) > 1:
        raise Missing(f"{c.target}: of {' and '.join(sorted(kinds))}")
    return kinds.pop() if kinds else "f32"


def masked_fill(c: Call) -> None:
    given = c.tensor("self")
    c.result("where", c.tensor("mask"), operand(c, "value"), given, dtype=c.graph.dtype(given))


OPS: dict[str, Op] = {
    "_log_softmax": softmax("log_softmax"),
    "_softmax": softmax("softmax"),
    "_to_copy": to_type,
    "_unsafe_view": reshape,
    "abs": plain("absolute"),
    "adaptive_avg_pool1d": adaptive("average_pool", "mean", 1),
    "adaptive_avg_pool2d": adaptive("average_pool", "mean", 2),
    "adaptive_max_pool1d": adaptive("max_pool", "max", 1),
    "adaptive_max_pool2d": adaptive("max_pool", "max", 2),
    "add": binary("add"),
    "addmm": addmm,
    "alias": unchanged,
    "amax": reduce("max"),
    "avg_pool1d": average_pool(1),
    "avg_pool2d": average_pool(2),
    "batch_norm": batch_norm,
    "bitwise_and": logical("and"),
    "bitwise_not": logical("not"),
    "bitwise_or": logical("or"),
    "bmm": matmul("mat2"),
    "cat": concat,
    "chunk": split(equal_parts),
    "clamp": clamp(),
    "clamp_max": clamp(),
    "clamp_min": clamp(),
    "clone": unchanged,
    "contiguous": unchanged,
    "conv1d": convolution,
    "conv2d": convolution,
    "detach": unchanged,
    "div": binary("divide"),
    "eq": binary("equal", dtype="bool"),
    "dropout": dropout,
    "elu": elu,
    "embedding": embedding,
    "erf": plain("erf"),
    "exp": plain("exp"),
    "expand": expand,
    "flatten": flatten,
    "full_like": filled(None),
    "ge": binary("greater_or_equal", dtype="bool"),
    "gelu": gelu,
    "gt": binary("greater", dtype="bool"),
    "hardsigmoid": plain("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "hardswish": plain("hard_swish"),
    "hardtanh": clamp(),
    "layer_norm": layer_norm,
    "le": binary("less_or_equal", dtype="bool"),
    "leaky_relu": leaky_relu,
    "lift_fresh_copy": unchanged,
    "linear": linear,
    "log": plain("log"),
    "log_softmax": softmax("log_softmax"),
    "logical_and": logical("and"),
    "logical_not": logical("not"),
    "logical_or": logical("or"),
    "lstm": lstm,
    "lt": binary("less", dtype="bool"),
    "masked_fill": masked_fill,
    "matmul": matmul("other"),
    "max_pool1d": max_pool(1),
    "max_pool2d": max_pool(2),
    "mean": reduce("mean"),
    "mm": matmul("mat2"),
    "mul": binary("multiply"),
    "narrow": narrow,
    "ne": not_equal,
    "neg": plain("negate"),
    "ones_like": filled(1),
    "permute": permute,
    "pow": power,
    "reciprocal": plain("reciprocal"),
    "prelu": prelu,
    "relu": plain("relu"),
    "relu6": clamp(0.0, 6.0),
    "reshape": reshape,
    "rms_norm": rms_norm,
    "rsqrt": inverse_root,
    "rsub": binary("subtract", exchanged=True),
    "scaled_dot_product_attention": attention,
    "select": select,
    "selu": plain("selu"),
    "sigmoid": plain("sigmoid"),
    "silu": plain("silu"),
    "slice": slice_,
    "softmax": softmax("softmax"),
    "softplus": softplus,
    "split": split(parts_of_size),
    "split_with_sizes": split(lambda c, extent: c.ints("split_sizes")),
    "sqrt": plain("sqrt"),
    "squeeze": squeeze,
    "sub": binary("subtract"),
    "sum": reduce("sum"),
    "t": transpose,
    "tanh": plain("tanh"),
    "to": to_type,
    "transpose": transpose,
    "unflatten": unflatten,
    "unsqueeze": unsqueeze,
    "view": reshape,
    "where": where,
    "zeros_like": filled(0),
}
