"""Mistakes in how ops are written as ONNX (backends/python/assay_onnx/ops.py), and the cell that shows each.

The old text must occur exactly once in the file.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    name: str
    workload: str
    size: str  # of a single op; of a network none
    old: str
    new: str


MISTAKES = [Mistake(*row) for row in (
    ("a window with height and width exchanged", "op/convolution", "", "    w.node(\n        \"Conv\",", "    inputs[1] = w.node(\"Transpose\", weight, perm=[0, 1, 3, 2])\n    w.node(\n        \"Conv\","),
    ("all padding at the end", "op/convolution", "n1", "(top, left, bottom, right)}", "(0, 0, top + bottom, left + right)}"),
    ("a kernel without its gaps", "op/convolution", "n1p2d2t32", "dilations=pair(dilation)", "dilations=[1, 1]"),
    ("a weight that is not transposed", "op/linear", "m4", "transB=1", "transB=0"),
    ("a bias that is left out", "op/linear", "m4", "inputs = [x, weight, bias] if bias else [x, weight]\n        w.node(\"Gemm\"", "inputs = [x, weight]\n        w.node(\"Gemm\""),
    ("an average of maxima", "op/average_pool", "", '"average_pool": average_pool', '"average_pool": max_pool'),
    ("a maximum of averages", "op/max_pool", "", '"max_pool": max_pool', '"max_pool": average_pool'),
    ("padding that does not count", "op/average_pool", "n1r3t1p1", "int(count_padding)", "0"),
    ("padding that counts", "op/average_pool", "n1r3t1p1x1", "int(count_padding)", "1"),
    ("a relu that leaks", "op/relu", "256", 'plain("Relu")', 'plain("LeakyRelu")'),
    ("a sigmoid of lines", "op/sigmoid", "256", '"sigmoid": plain("Sigmoid")', '"sigmoid": plain("HardSigmoid")'),
    ("another curve for tanh", "op/tanh", "256", '"tanh": plain("Tanh")', '"tanh": plain("Softsign")'),
    ("softplus without its bend", "op/softplus", "256", 'plain("Softplus")', 'plain("Relu")'),
    ("another curve for softsign", "op/softsign", "256", '"softsign": plain("Softsign")', '"softsign": plain("Tanh")'),
    ("gelu always by erf", "op/gelu", "256t1", 'plain("Gelu")', 'lambda w, x, *, out, approximate: w.node("Gelu", x, out=out)'),
    ("gelu always by tanh", "op/gelu", "256", 'plain("Gelu")', 'lambda w, x, *, out, approximate: w.node("Gelu", x, out=out, approximate="tanh")'),
    ("silu of lines", "op/silu", "256", 'w.node("Sigmoid", x), out=out)', 'w.node("HardSigmoid", x), out=out)'),
    ("a leak that is a curve", "op/leaky_relu", "256", 'plain("LeakyRelu", slope="alpha")', 'plain("Elu", slope="alpha")'),
    ("a slope for each column", "op/prelu", "c16h16", "held.reshape(shape)", "held"),
    ("slopes that are leaks", "op/prelu", "", 'w.node("PRelu", x, turned, out=out)', 'w.node("LeakyRelu", x, out=out)'),
    ("elu without its alpha", "op/elu", "256", 'plain("Elu")', 'lambda w, x, *, out, alpha: w.node("Selu", x, out=out)'),
    ("selu without its scale", "op/selu", "256", 'plain("Selu")', 'plain("Elu")'),
    ("a bound that is a thousandth too high", "op/clamp", "256", "w.number(most), out=out)", "w.number(most + 1e-3), out=out)"),
    ("hard_sigmoid with ONNX's alpha", "op/hard_sigmoid", "256", 'plain("HardSigmoid")', 'lambda w, x, *, out, alpha, beta: w.node("HardSigmoid", x, out=out)'),
    ("hard_swish as silu", "op/hard_swish", "256", 'plain("HardSwish")', "silu"),
    ("an epsilon ten times as large in batch_norm", "op/batch_norm", "", "*given, out=out, epsilon=epsilon,", "*given, out=out, epsilon=10 * epsilon,"),
    ("an epsilon ten times as large in layer_norm", "op/layer_norm", "", "axis=-1, epsilon=epsilon", "axis=-1, epsilon=10 * epsilon"),
    ("rms_norm without its scale", "op/rms_norm", "", 'w.node("Mul", w.node("Div", x, root), weight, out=out)', 'w.node("Div", x, root, out=out)'),
    ("a mean that is a sum", "op/reduce_mean", "", '"mean": "ReduceMean"', '"mean": "ReduceSum"'),
    ("a norm of absolute values", "op/normalise", "", "ReduceL2", "ReduceL1"),
    ("a scale that is not a root", "op/attention", "", "1 / math.sqrt(width)", "1 / width"),
    ("a query that sees the next key", "nanogpt", "", "np.tri(queries, keys, keys - queries, dtype=bool)", "np.tri(queries, keys, 1 + keys - queries, dtype=bool)"),
    ("a rotation the other way round", "op/rotary", "", "(-1 if inverse else 1)", "(1 if inverse else -1)"),
    ("steps of padding that count", "op/mean_pool", "", 'w.node("ReduceSum", counted, steps, keepdims=0)', "w.number(length)"),
    ("the row before", "op/embedding", "", 'outside, last, w.node("Min", indices, last))', 'outside, last, w.node("Max", w.node("Sub", indices, w.constant(np.int32(1))), w.constant(np.int32(0))))'),
    ("the gates in our order", "lstm", "", "np.concatenate([i, o, f, g])[None]", "np.concatenate([i, f, g, o])[None]"),
    ("operands exchanged in a difference", "op/subtract", "256", 'plain("Sub")', 'lambda w, a, b, *, out: w.node("Sub", b, a, out=out)'),
    ("operands exchanged in a quotient", "op/divide", "256", 'plain("Div")', 'lambda w, a, b, *, out: w.node("Div", b, a, out=out)'),
)]  # fmt: skip
