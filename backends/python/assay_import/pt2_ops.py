"""One function for each op of torch.export: it writes the node as ops of Assay, or as parts for the lifts.

The names of arguments are those of torch's native_functions.yaml. Missing says what no op of Assay has.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import limits
from .errors import Missing
from .graph import Constant
from .pt2_call import Call
from .pt2_recurrent import lstm
from .pt2_windows import (
    adaptive_average_pool,
    adaptive_max_pool,
    average_pool,
    convolution,
    max_pool,
)
from .shapes import broadcast

Op = Callable[[Call], None]


def plain(op: str, **attributes: float) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        c.result(op, c.tensor("self"), out="", dtype="f32", **attributes)

    return read


def binary(op: str, exchanged: bool = False, dtype: str = "") -> Op:
    """An op of two operands, the second of which may be a number."""

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
    if rank != 4:
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
    c.result(
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
    largest = float(np.finfo(np.float32).max)

    def read(c: Call) -> None:
        c.floats("self")
        low = least if least is not None else c.number("min_val", c.number("min", -largest))
        high = most if most is not None else c.number("max_val", c.number("max", largest))
        if low == 0 and high >= largest:
            c.result("relu", c.tensor("self"))
        elif not low < high:
            raise Missing(f"{c.target}: bounds that are equal or exchanged")
        else:
            c.result("clamp", c.tensor("self"), least=max(low, -largest), most=min(high, largest))

    return read


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


# Shapes.


def reshape(c: Call) -> None:
    key = "size" if "size" in c.arguments else "shape"
    shape = with_free_batch(c, c.ints(key))
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=shape)


def with_free_batch(c: Call, wanted: list[int]) -> list[int]:
    """Return the shape of a reshape; if the batch of the export is in it, with this batch."""
    shape, own = c.shape(), c.state.file_batch
    is_baked = (
        own not in (0, c.batch)
        and shape[:1] == (c.batch,)
        and wanted[:1] == [own]
        and (-1 in wanted[1:] or math.prod(wanted) * c.batch == math.prod(shape) * own)
    )
    if not is_baked:
        return wanted
    if not c.state.options.free_batch:
        raise Missing(f"reshape: a batch of {own} is written in it (--free-batch replaces it)")
    c.state.freed.add(c.source.name)
    return [c.batch, *wanted[1:]]


def flatten(c: Call) -> None:
    c.floats("self")
    shape = c.shape()
    begin, end = c.axis(c.get("start_dim", 0)), c.axis(c.get("end_dim", -1))
    joined = [*shape[:begin], math.prod(shape[begin : end + 1]), *shape[end + 1 :]]
    c.result("reshape", c.tensor("self"), shape=joined)


def unflatten(c: Call) -> None:
    shape, axis = c.shape(), c.axis(c.get("dim", 0))
    wanted = [*shape[:axis], *c.ints("sizes"), *shape[axis + 1 :]]
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=wanted)


def permute(c: Call) -> None:
    c.floats("self")
    c.result("transpose", c.tensor("self"), permutation=[c.axis(axis) for axis in c.ints("dims")])


def transpose(c: Call) -> None:
    c.floats("self")
    order = list(range(len(c.shape())))
    a, b = (c.axis(c.get(name, i)) for i, name in enumerate(("dim0", "dim1")))
    order[a], order[b] = order[b], order[a]
    c.result("transpose", c.tensor("self"), permutation=order)


def squeeze(c: Call) -> None:
    c.floats("self")
    shape = c.shape()
    axes = {c.axis(axis) for axis in c.ints("dim")} if c.get("dim") is not None else set(range(1, len(shape)))
    kept = [extent for i, extent in enumerate(shape) if not (i in axes and extent == 1)]
    c.result("reshape", c.tensor("self"), shape=kept)


def unsqueeze(c: Call) -> None:
    shape = list(c.shape())
    shape.insert(c.axis(c.get("dim"), len(shape) + 1), 1)
    c.result("reshape", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=shape)


def expand(c: Call) -> None:
    shape, size = c.shape(), c.ints("size")
    new = len(size) - len(shape)
    kept = [shape[i - new] if extent == -1 and i >= new else extent for i, extent in enumerate(size)]
    if tuple(kept) == shape:
        c.same(c.tensor("self"))
    else:
        c.result("expand", c.tensor("self"), dtype=c.graph.dtype(c.tensor("self")), shape=kept)


def unchanged(c: Call) -> None:
    c.same(c.tensor("self"))


def to_type(c: Call) -> None:
    name = c.graph.dtype(c.tensor("self"))
    to = name if c.get("dtype") is None else {4: "int", 5: "int", 7: "f32", 12: "bool"}.get(c.get("dtype"))
    if to is None:
        raise Missing(f"{c.target}: from {name} to another type")
    if to == name:
        c.same(c.tensor("self"))
    else:
        c.result("cast", c.tensor("self"), dtype=to)


def concat(c: Call) -> None:
    names = [ref.name for ref in c.get("tensors", [])]
    if any(c.graph.dtype(name) != "f32" for name in names) or not names:
        raise Missing(f"{c.target}: of values that are not floats")
    rank = len(c.graph.known_shape(names[0]))
    c.result("concat", *names, axis=c.axis(c.get("dim", 0), rank))


def slice_(c: Call) -> None:
    c.floats("self")
    axis, shape = c.axis(c.get("dim", 0)), c.shape()
    if c.get("step", 1) != 1:
        raise Missing(f"slice: a step of {c.get('step')}")
    begin, end, _ = slice(c.get("start", 0), c.get("end")).indices(shape[axis])
    piece(c, c.out, axis, begin, end)


def piece(c: Call, out: str, axis: int, begin: int, end: int) -> None:
    if (begin, end) == (0, c.shape()[axis]):
        c.same(c.tensor("self"), out)
    else:
        c.result("slice", c.tensor("self"), out=out, axis=axis, begin=begin, end=end)


def select(c: Call) -> None:
    c.floats("self")
    shape, axis, index = list(c.shape()), c.axis(c.get("dim", 0)), c.get("index")
    if not isinstance(index, int) or not -shape[axis] <= index < shape[axis]:
        raise Missing(f"{c.target}: index {index}")
    index %= shape[axis]
    row = c.step("slice", c.tensor("self"), axis=axis, begin=index, end=index + 1)
    c.result("reshape", row, shape=[*shape[:axis], *shape[axis + 1 :]])


def split(sizes_of: Callable[[Call, int], list[int]]) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        axis = c.axis(c.get("dim", 0))
        extent = c.shape()[axis]
        sizes, begin = sizes_of(c, extent), 0
        if sum(sizes) != extent or len(sizes) != len(c.outs) or len(sizes) > limits.STEPS:
            raise Missing(f"{c.target}: of {extent} into {len(sizes)} parts")
        for out, size in zip(c.outs, sizes, strict=True):
            piece(c, out, axis, begin, begin + size)
            begin += size

    return read


def equal_parts(c: Call, extent: int) -> list[int]:
    count = max(int(c.number("chunks", 1)), 1)
    return parts_of(extent, -(-extent // count))


def parts_of(extent: int, size: int) -> list[int]:
    if size < 1 or extent // size > limits.STEPS:
        return []
    return [min(size, extent - begin) for begin in range(0, extent, size)]


def parts_of_size(c: Call, extent: int) -> list[int]:
    given = c.ints("split_size") if "split_size" in c.arguments else c.ints("split_sizes")
    return given if isinstance(c.get("split_size"), list) else parts_of(extent, given[0] if given else 0)


# The rest.


def reduce(kind: str) -> Op:
    def read(c: Call) -> None:
        c.floats("self")
        shape = c.shape()
        given = c.ints("dim")
        axes = sorted({c.axis(axis) for axis in given}) if given else list(range(len(shape)))
        if not c.get("keepdim", False):
            c.result("reduce", c.tensor("self"), kind=kind, axes=axes)
            return
        kept = [1 if i in axes else extent for i, extent in enumerate(shape)]
        c.result("reshape", c.step("reduce", c.tensor("self"), kind=kind, axes=axes), shape=kept)

    return read


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


def attention(c: Call) -> None:
    c.floats("query", "key", "value")
    if c.number("dropout_p", 0):
        raise Missing("attention: with dropout of its weights (export the module in eval mode)")
    q, k = c.shape("query"), c.shape("key")
    if len(q) != 4 or len(k) != 4:
        raise Missing(f"attention: {len(q)} dimensions")
    causal = bool(c.get("is_causal", False))
    if causal and q[2] != k[2]:
        raise Missing("attention: causal with other keys than queries")
    if q[1] != k[1] and not c.get("enable_gqa", False):
        raise Missing("attention: heads that are broadcast")
    scale = c.number("scale", 0)
    scale = 0.0 if abs(scale * math.sqrt(q[3]) - 1) < 1e-6 else scale
    operands = [
        c.step("transpose", c.tensor(name), permutation=[0, 2, 1, 3]) for name in ("query", "key", "value")
    ]
    y = c.step("attention", *operands, attention_mask(c), causal=causal, scale=scale)
    c.result("transpose", y, permutation=[0, 2, 1, 3])


def attention_mask(c: Call) -> str | None:
    name = c.optional("attn_mask")
    if name is None:
        return None
    array = c.graph.array(name)
    if array is None:
        if len(c.graph.known_shape(name)) != 4:
            raise Missing("attention: a mask that is computed from the input, without four dimensions")
        if c.graph.dtype(name) == "bool":
            shown, low = (
                c.hold(part, np.array(value, np.float32)) for part, value in (("shown", 0), ("low", -1e38))
            )
            return c.step("where", name, shown, low)
        return name
    if array.shape[:1] == (c.batch,) and (array == array[:1]).all():
        array = array[:1]
    if array.dtype == bool:
        array = np.where(array, np.float32(0), np.float32(-np.inf))
    if not (array > -1e9).any(axis=-1).all():
        raise Missing("attention: a query that sees no key")
    whole = np.maximum(array, np.float32(-1e38)).reshape((1,) * (4 - array.ndim) + array.shape)
    return c.hold("mask", whole)


def where(c: Call) -> None:
    c.result("where", c.tensor("condition"), operand(c, "self"), operand(c, "other"))


def masked_fill(c: Call) -> None:
    c.result("where", c.tensor("mask"), operand(c, "value"), c.tensor("self"))


OPS: dict[str, Op] = {
    "_log_softmax": softmax("log_softmax"),
    "_softmax": softmax("softmax"),
    "_to_copy": to_type,
    "_unsafe_view": reshape,
    "abs": plain("absolute"),
    "adaptive_avg_pool2d": adaptive_average_pool,
    "adaptive_max_pool2d": adaptive_max_pool,
    "add": binary("add"),
    "addmm": addmm,
    "alias": unchanged,
    "amax": reduce("max"),
    "avg_pool2d": average_pool,
    "batch_norm": batch_norm,
    "bmm": matmul("mat2"),
    "cat": concat,
    "chunk": split(equal_parts),
    "clamp": clamp(),
    "clone": unchanged,
    "contiguous": unchanged,
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
    "gelu": gelu,
    "gt": binary("greater", dtype="bool"),
    "hardsigmoid": plain("hard_sigmoid", alpha=1 / 6, beta=0.5),
    "hardswish": plain("hard_swish"),
    "hardtanh": clamp(),
    "layer_norm": layer_norm,
    "leaky_relu": leaky_relu,
    "lift_fresh_copy": unchanged,
    "linear": linear,
    "log": plain("log"),
    "log_softmax": softmax("log_softmax"),
    "logical_not": lambda c: c.result("not", c.tensor("self"), dtype="bool"),
    "lstm": lstm,
    "lt": binary("less", dtype="bool"),
    "masked_fill": masked_fill,
    "matmul": matmul("other"),
    "max_pool2d": max_pool,
    "mean": reduce("mean"),
    "mm": matmul("mat2"),
    "mul": binary("multiply"),
    "neg": plain("negate"),
    "permute": permute,
    "pow": power,
    "reciprocal": plain("reciprocal"),
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
}
