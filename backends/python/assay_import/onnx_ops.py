"""One function for each op of ONNX: it writes the node as ops of Assay, or as parts that the lifts look for.

It raises Missing with the feature that no op of Assay has. assay_onnx/ops.py writes the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import limits
from .errors import Missing
from .onnx_call import Call
from .onnx_recurrent import lstm
from .onnx_windows import average_pool, convolution, global_pool, max_pool
from .shapes import broadcast

Op = Callable[[Call], None]
LARGEST = float(np.finfo(np.float32).max)


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
    if rank != 4:
        raise Missing(f"batch_norm: {rank} dimensions")
    if not c.attributes.get("spatial", 1):
        raise Missing("batch_norm: over each position")
    if c.attributes.get("training_mode") or (c.opset < 7 and not c.attributes.get("is_test")):
        raise Missing("batch_norm: in training mode (export the model in eval mode)")
    for i in range(1, 5):
        c.constant(i)
    c.result(
        "batch_norm",
        *(c.input(i) for i in range(5)),
        epsilon=c.number("epsilon", 1e-5),
        momentum=c.number("momentum", 0.9),
    )


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
    least, most = c.number("min", -LARGEST, 1), c.number("max", LARGEST, 2)
    if least == 0 and most >= LARGEST:
        c.result("relu", c.input(0))
        return
    if not least < most:
        raise Missing("Clip: bounds that are equal or exchanged")
    c.result("clamp", c.input(0), least=max(least, -LARGEST), most=min(most, LARGEST))


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


# Shapes.


def reshape(c: Call) -> None:
    wanted = c.numbers("shape", 1)
    if wanted is None:
        raise Missing("Reshape: without a shape")
    shape = c.shape()
    if not c.attributes.get("allowzero"):
        wanted = [shape[i] if extent == 0 and i < len(shape) else extent for i, extent in enumerate(wanted)]
    c.result("reshape", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=with_free_batch(c, wanted))


def with_free_batch(c: Call, wanted: list[int]) -> list[int]:
    """Return the shape of a reshape; if the file's own batch is in it, that of this batch, or refuse it."""
    shape, own = c.shape(), c.state.file_batch
    count = math.prod(shape)
    is_baked = (
        shape[:1] == (c.batch,)
        and wanted[:1] == [own]
        and own != c.batch
        and (-1 in wanted[1:] or math.prod(wanted) * c.batch == count * own)
    )
    if not is_baked:
        return wanted
    if not c.state.options.free_batch:
        raise Missing(f"reshape: a batch of {own} is written in it (--free-batch replaces it)")
    c.state.freed.add(c.source.name)
    return [c.batch, *wanted[1:]]


def to_shape(new: Callable[[Call], list[int]]) -> Op:
    def read(c: Call) -> None:
        c.result("reshape", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=new(c))

    return read


def flattened(c: Call) -> list[int]:
    axis, shape = int(c.attributes.get("axis", 1)), c.shape()
    axis = axis + len(shape) if axis < 0 else axis
    return [math.prod(shape[:axis]), math.prod(shape[axis:])]


def squeezed(c: Call) -> list[int]:
    shape, axes = c.shape(), c.numbers("axes", 1)
    if axes is None:
        # The batch stays even if it is one sample.
        return [extent for i, extent in enumerate(shape) if extent != 1 or i == 0]
    gone = {c.axis(axis) for axis in axes}
    if any(shape[axis] != 1 for axis in gone):
        raise Missing(f"Squeeze: an extent that is not 1 of {shape}")
    return [extent for i, extent in enumerate(shape) if i not in gone]


def unsqueezed(c: Call) -> list[int]:
    shape, axes = list(c.shape()), c.numbers("axes", 1) or []
    rank = len(shape) + len(axes)
    new = {c.axis(axis, rank) for axis in axes}
    rest = iter(shape)
    return [1 if i in new else next(rest) for i in range(rank)]


def transpose(c: Call) -> None:
    c.floats()
    order = c.numbers("perm") or list(range(len(c.shape())))[::-1]
    c.result("transpose", c.input(0), permutation=order)


def expand(c: Call) -> None:
    shape = broadcast([c.shape(), tuple(c.numbers("", 1) or [])])
    if shape == c.shape():
        c.same(c.input(0))
    else:
        c.result("expand", c.input(0), dtype=c.graph.dtype(c.input(0)), shape=list(shape))


def concat(c: Call) -> None:
    c.floats()
    if len(c.inputs) == 1:
        c.same(c.input(0))
        return
    axis = c.axis(int(c.attributes.get("axis", 1)))
    for i, name in enumerate(c.inputs):
        held = c.graph.constants.get(name) if name else None
        if held is not None and not held.original and axis > 0 and c.shape(i)[0] == c.batch:
            raise Missing("concat: with a constant for each sample, such as a class token")
    c.result("concat", *c.inputs, axis=axis)


def slice_(c: Call) -> None:
    c.floats(0)
    starts, ends = c.numbers("starts", 1) or [], c.numbers("ends", 2) or []
    axes = c.numbers("axes", 3)
    axes = list(range(len(starts))) if axes is None else axes
    steps = c.numbers("steps", 4) or [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Missing("Slice: lists of different lengths")
    x, shape, parts = c.input(0), c.shape(), []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step != 1:
            raise Missing(f"slice: a step of {step}")
        axis = c.axis(axis)
        begin, end, _ = slice(start, end).indices(shape[axis])
        if (begin, end) != (0, shape[axis]):
            parts.append((axis, begin, end))
    pieces(c, x, parts)


def pieces(c: Call, x: str, parts: list[tuple[int, int, int]], out: str = "") -> None:
    """Cut a value along several axes, one after the other."""
    for axis, begin, end in parts[:-1]:
        x = c.step("slice", x, axis=axis, begin=begin, end=end)
    for axis, begin, end in parts[-1:]:
        c.result("slice", x, out=out, axis=axis, begin=begin, end=end)
    if not parts:
        c.same(x, out)


def parts_of(c: Call, sizes: list[int]) -> list[list[tuple[int, int, int]]]:
    """Return the pieces of these sizes along the axis of a split."""
    axis = c.axis(int(c.attributes.get("axis", 0)))
    extent, begin, found = c.shape()[axis], 0, []
    if sum(sizes) != extent or min(sizes, default=0) < 1 or len(sizes) > limits.STEPS:
        raise Missing(f"{c.source.op}: of {extent} into {len(sizes)} parts")
    for size in sizes:
        found.append([(axis, begin, begin + size)] if size != extent else [])
        begin += size
    return found


def split(c: Call) -> None:
    c.floats(0)
    extent, count = c.shape()[c.axis(int(c.attributes.get("axis", 0)))], len(c.outs)
    sizes = c.numbers("split", 1)
    if sizes is None:
        size = -(-extent // count)
        sizes = [min(size, extent - i * size) for i in range(count)]
    if len(sizes) != count:
        raise Missing(f"Split: of {extent} into {len(sizes)} parts")
    for name, parts in zip(c.outs, parts_of(c, sizes), strict=True):
        if name:
            pieces(c, c.input(0), parts, name)


def split_to_sequence(c: Call) -> None:
    """Keep the parts for SequenceAt. As a whole, a sequence is nothing that a network has."""
    c.floats(0)
    extent = c.shape()[c.axis(int(c.attributes.get("axis", 0)))]
    given = c.constant(1) if c.optional(1) else np.array(1)
    if not c.optional(1) and not c.attributes.get("keepdims", 1):
        raise Missing("SplitToSequence: without the dimension")
    sizes = [int(size) for size in given.reshape(-1)]
    if given.ndim == 0:
        size = max(sizes[0], 1)
        sizes = [min(size, extent - begin) for begin in range(0, extent, size)][: limits.STEPS + 1]
    c.state.sequences[c.out] = (c.input(0), parts_of(c, sizes))


def sequence_at(c: Call) -> None:
    value, parts = c.state.sequences.get(c.input(0), ("", []))
    i = int(c.constant(1).reshape(-1)[0])
    if not -len(parts) <= i < len(parts):
        raise Missing("SequenceAt: of another sequence than that of SplitToSequence")
    pieces(c, value, parts[i])


def gather(c: Call) -> None:
    axis = c.axis(int(c.attributes.get("axis", 0)))
    if axis == 0 and len(c.shape()) == 2 and c.graph.dtype(c.input(1)) == "int":
        c.floats(0)
        if c.graph.array(c.input(0)) is not None:
            c.result("embedding", c.input(1), c.input(0))
            return
    c.floats(0)
    indices = c.graph.array(c.input(1))
    if indices is None:
        raise Missing("gather: by computed indices")
    flat = [int(i) for i in indices.reshape(-1)]
    extent = c.shape()[axis]
    flat = [i + extent if i < 0 else i for i in flat]
    if not flat or flat != list(range(flat[0], flat[0] + len(flat))) or not 0 <= flat[0] <= flat[-1] < extent:
        raise Missing("gather: rows that do not follow each other")
    if indices.ndim == 1:
        pieces(c, c.input(0), [(axis, flat[0], flat[-1] + 1)] if len(flat) != extent else [])
        return
    x = c.input(0)
    if len(flat) != extent:
        x = c.step("slice", x, axis=axis, begin=flat[0], end=flat[-1] + 1)
    shape = list(c.shape())
    c.result("reshape", x, shape=[*shape[:axis], *indices.shape, *shape[axis + 1 :]])


def reduce(kind: str) -> Op:
    def read(c: Call) -> None:
        c.floats(0)
        shape, given = c.shape(), c.numbers("axes", 1)
        if not given and c.attributes.get("noop_with_empty_axes"):
            c.same(c.input(0))
            return
        axes = sorted({c.axis(axis) for axis in given}) if given else list(range(len(shape)))
        if not c.attributes.get("keepdims", 1):
            c.result("reduce", c.input(0), kind=kind, axes=axes)
            return
        kept = [1 if i in axes else extent for i, extent in enumerate(shape)]
        c.result("reshape", c.step("reduce", c.input(0), kind=kind, axes=axes), shape=kept)

    return read


# The rest.


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


def attention(c: Call) -> None:
    c.floats(0, 1, 2)
    if any(c.optional(i) for i in (4, 5, 6)) or any(c.is_read(i) for i in (1, 2, 3)):
        raise Missing("attention: with a cache")
    if c.number("softcap", 0) or c.attributes.get("softmax_precision", 1) != 1:
        raise Missing("attention: capped scores, or another precision")
    heads = (int(c.attributes.get("q_num_heads", 0)), *[int(c.attributes.get("kv_num_heads", 0))] * 2)
    q, k, v = (by_position(c, i, heads[i]) for i in range(3))
    queries, keys = c.graph.known_shape(q), c.graph.known_shape(k)
    causal = bool(c.attributes.get("is_causal", 0))
    if causal and queries[1] != keys[1]:
        raise Missing("attention: causal with other keys than queries")
    y = c.step("attention", q, k, v, mask_of(c), causal=causal, scale=known_scale(c, queries[3]))
    if len(c.shape()) == 4:
        c.result("transpose", y, permutation=[0, 2, 1, 3])
    else:
        c.result("reshape", y, shape=[*c.shape()[:2], queries[2] * queries[3]])


def known_scale(c: Call, width: int) -> float:
    scale = c.number("scale", 0)
    return 0.0 if abs(scale * math.sqrt(width) - 1) < 1e-6 else scale


def by_position(c: Call, i: int, heads: int) -> str:
    """Return (N, T, H, D) of (N, H, T, D) or (N, T, H D)."""
    shape = c.shape(i)
    if len(shape) == 4:
        return c.step("transpose", c.input(i), permutation=[0, 2, 1, 3])
    if len(shape) != 3 or heads < 1 or shape[2] % heads:
        raise Missing(f"attention: {len(shape)} dimensions")
    return c.step("reshape", c.input(i), shape=[*shape[:2], heads, shape[2] // heads])


def mask_of(c: Call) -> str | None:
    name = c.optional(3)
    if name is None:
        return None
    if c.graph.dtype(name) == "bool":
        allowed = c.graph.array(name)
        if allowed is None:
            shown, low = (
                c.hold(part, np.array(value, np.float32)) for part, value in (("shown", 0), ("low", -1e38))
            )
            return c.step("where", name, shown, low)
        if not allowed.any(axis=-1).all():
            raise Missing("attention: a query that sees no key")
        hidden = np.where(allowed, np.float32(0), np.float32(-1e38))
        return c.hold("mask", np.broadcast_to(hidden, (1,) * (4 - hidden.ndim) + hidden.shape))
    shape = c.graph.known_shape(name)
    if len(shape) < 4:
        return c.step("reshape", name, shape=[1] * (4 - len(shape)) + list(shape))
    return name


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
