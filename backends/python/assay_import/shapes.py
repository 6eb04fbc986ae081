"""The shape of each op's result, as the contracts have it, and of the parts that the lifts look for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from .errors import Missing

Shape = tuple[int, ...]
Shapes = Sequence[Shape]


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAME = words(
    "batch_norm clamp dropout elu gelu hard_sigmoid hard_swish layer_norm leaky_relu local_response_norm "
    "normalise relu rms_norm rotary selu sigmoid silu softmax softplus softsign tanh absolute cast "
    "erf exp log log_softmax negate not not_equal reciprocal sqrt"
)
BROADCAST = words(
    "add subtract multiply divide power maximum minimum equal less greater less_or_equal "
    "greater_or_equal and or where"
)
# The ops of this file that a network may not have: parts that only a lift turns into an op.
PARTS = words(
    "absolute cast erf exp expand log log_softmax negate not not_equal reciprocal sqrt power maximum "
    "minimum equal less greater less_or_equal greater_or_equal and or where"
)


def broadcast(shapes: Shapes) -> Shape:
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for extents in zip(*padded, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            raise Missing(f"operands of the shapes {', '.join(map(text, shapes))} do not fit")
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"


def spread(numbers: int | list[int], count: int) -> list[int]:
    """Return the numbers of an attribute, in which equal ones are written as one."""
    return [numbers] * count if isinstance(numbers, int) else numbers


def convolution(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, weight = shapes[0], shapes[1]
    groups = a.get("groups", 1)
    if len(x) != 4 or len(weight) != 4 or x[1] != weight[1] * groups or weight[0] % groups:
        in_groups = f" in {groups} groups" if groups > 1 else ""
        raise Missing(f"convolution of {text(x)} with a weight of {text(weight)}{in_groups}")
    strides, dilations = spread(a["stride"], 2), spread(a.get("dilation", 1), 2)
    pads = spread(a["padding"], 4)
    extents = [
        (x[2 + i] + pads[i] + pads[2 + i] - dilations[i] * (weight[2 + i] - 1) - 1) // strides[i] + 1
        for i in (0, 1)
    ]
    return positive((x[0], weight[0], *extents))


def pool(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x = shapes[0]
    kernel, strides, pads = spread(a["kernel"], 2), spread(a["stride"], 2), spread(a["padding"], 4)
    extents = [(x[2 + i] + pads[i] + pads[2 + i] - kernel[i]) // strides[i] + 1 for i in (0, 1)]
    return positive((x[0], x[1], *extents))


def positive(shape: Shape) -> Shape:
    if min(shape, default=1) < 1:
        raise Missing(f"a result of the shape {text(shape)}")
    return shape


def linear(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, weight = shapes[0], shapes[1]
    if len(x) < 2 or len(weight) != 2 or x[-1] != weight[1]:
        raise Missing(f"linear of {text(x)} with a weight of {text(weight)}")
    return (*x[:-1], weight[0])


def matmul(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, y = (list(shape) for shape in shapes[:2])
    for operand, is_turned in ((x, a.get("transpose_a")), (y, a.get("transpose_b"))):
        if len(operand) < 2:
            raise Missing("matmul: with a vector")
        if is_turned:
            operand[-2:] = operand[:-3:-1]
    if x[-1] != y[-2]:
        raise Missing(f"matmul of {text(shapes[0])} and {text(shapes[1])}")
    return (*broadcast([tuple(x[:-2]), tuple(y[:-2])]), x[-2], y[-1])


def reshape(shapes: Shapes, a: dict[str, Any]) -> Shape:
    wanted = list(a["shape"])
    count = math.prod(shapes[0])
    if -1 in wanted:
        rest = -math.prod(wanted)
        wanted[wanted.index(-1)] = count // rest if rest > 0 and count % rest == 0 else 0
    if math.prod(wanted) != count or min(wanted, default=1) < 1:
        raise Missing(f"reshape of {text(shapes[0])} to {text(tuple(a['shape']))}")
    return tuple(wanted)


def concat(shapes: Shapes, a: dict[str, Any]) -> Shape:
    axis, first = a["axis"], shapes[0]
    for shape in shapes:
        if len(shape) != len(first) or any(i != axis and shape[i] != first[i] for i in range(len(first))):
            raise Missing(f"concat of {', '.join(map(text, shapes))} along dimension {axis}")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def slice_(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, axis, begin, end = shapes[0], a["axis"], a["begin"], a["end"]
    if not 0 <= begin < end <= x[axis]:
        raise Missing(f"slice [{begin}, {end}) of {text(x)} along dimension {axis}")
    return (*x[:axis], end - begin, *x[axis + 1 :])


def transpose(shapes: Shapes, a: dict[str, Any]) -> Shape:
    if sorted(a["permutation"]) != list(range(len(shapes[0]))):
        raise Missing(f"transpose of {text(shapes[0])} by {a['permutation']}")
    return tuple(shapes[0][i] for i in a["permutation"])


def reduce(shapes: Shapes, a: dict[str, Any]) -> Shape:
    return tuple(extent for i, extent in enumerate(shapes[0]) if i not in a["axes"])


def attention(shapes: Shapes, a: dict[str, Any]) -> Shape:
    q, k, v = shapes[:3]
    fits = len(q) == len(k) == len(v) == 4 and k == v and q[0] == k[0] and q[3] == k[3]
    if not fits or q[2] % k[2]:
        raise Missing(f"attention of {text(q)}, {text(k)} and {text(v)}")
    return tuple(q)


def embedding(shapes: Shapes, a: dict[str, Any]) -> Shape:
    return (*shapes[0], *shapes[1][1:])


def expand(shapes: Shapes, a: dict[str, Any]) -> Shape:
    return broadcast([shapes[0], tuple(a["shape"])])


def lstm(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, recurrent = shapes[0], shapes[2]
    return (x[0], recurrent[1]) if a["last"] else (x[0], x[1], recurrent[1])


def padding_mask(shapes: Shapes, a: dict[str, Any]) -> Shape:
    return (shapes[0][0], 1, 1, shapes[0][1])


def prelu(shapes: Shapes, a: dict[str, Any]) -> Shape:
    x, slope = shapes[0], shapes[1]
    if len(x) < 2 or slope not in ((1,), (x[1],)):
        raise Missing(f"prelu of {text(x)} with slopes of {text(slope)}")
    return x


RULES: dict[str, Callable[[Shapes, dict[str, Any]], Shape]] = {
    "attention": attention,
    "average_pool": pool,
    "concat": concat,
    "convolution": convolution,
    "embedding": embedding,
    "expand": expand,
    "linear": linear,
    "lstm": lstm,
    "matmul": matmul,
    "max_pool": pool,
    "mean_pool": lambda shapes, a: (shapes[0][0], shapes[0][2]),
    "padding_mask": padding_mask,
    "prelu": prelu,
    "reduce": reduce,
    "reshape": reshape,
    "slice": slice_,
    "transpose": transpose,
}


def shape_of(op: str, shapes: Shapes, attributes: dict[str, Any]) -> Shape:
    """Return the shape of an op's result. Raises Missing if the operands do not fit."""
    if op in SAME:
        return shapes[0]
    return broadcast(shapes) if op in BROADCAST else RULES[op](shapes, attributes)
