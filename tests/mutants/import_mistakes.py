"""Mistakes in how a model is read (backends/python/assay_import), and the network that shows each.

The old text must occur exactly once in the file. tests/python/test_import_mistakes.py has the networks.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    name: str
    network: str
    file: str
    old: str
    new: str


MISTAKES = [Mistake(*row) for row in (
    ("an epsilon of batch norm that is a default", "cnn", "onnx_ops.py", 'epsilon=c.number("epsilon", 1e-5),\n        momentum', "epsilon=1e-5,\n        momentum"),
    ("a mean and a variance exchanged", "cnn", "onnx_ops.py", "[c.input(i) for i in range(5)]", "[c.input(i) for i in (0, 1, 2, 4, 3)]"),
    ("a scale layer that is not in the weight", "cnn", "lifts/layers.py", "(w * k).astype", "(w + 0 * k).astype"),
    ("a scale layer that is not in the bias", "cnn", "lifts/layers.py", "(b * k + t)", "(b + t)"),
    ("scale and shift exchanged", "cnn", "lifts/layers.py", "for each in (scale, shift))\n            if", "for each in (shift, scale))\n            if"),
    ("a scale layer that joins the batch norm before another", "cnn", "lifts/layers.py", "if k is not None and t is not None:", "if k is not None and (t := k) is not None:"),
    ("a concat in the wrong order", "cnn", "onnx_shapes.py", 'c.result("concat", *c.inputs,', 'c.result("concat", *c.inputs[::-1],'),
    ("a kernel with height and width exchanged", "cnn", "onnx_windows.py", "operands = c.input(0), c.input(1), c.optional(2)", 'operands = c.input(0), c.graph.derive(c.input(1), ".hw", c.constant(1).swapaxes(2, 3)), c.optional(2)'),
    ("a convolution without its bias", "cnn", "onnx_windows.py", "c.input(1), c.optional(2)\n", "c.input(1), None\n"),
    ("paddings in the wrong order", "windows", "windows.py", 'attributes: dict[str, Any] = {"stride": joined(strides), "padding": joined(pads)}', 'attributes: dict[str, Any] = {"stride": joined(strides), "padding": joined(pads[::-1])}'),
    ("paddings of a row in the wrong order", "windows", "windows.py", "dilations * 2, [0, pads[0], 0, pads[1]]", "dilations * 2, [0, pads[1], 0, pads[0]]"),
    ("paddings of SAME_LOWER at the end", "windows", "onnx_windows.py", 'before.append(small if kind == "SAME_UPPER" else large)\n        after.append(large if kind == "SAME_UPPER" else small)', "before.append(small)\n        after.append(large)"),
    ("a lifted bias that is lost", "cnn", "lifts/layers.py", "inputs = [*product.inputs[:2], as_vector(graph, str(bias))]", "inputs = [*product.inputs[:2], None]"),
    ("an average of maxima", "cnn", "onnx_windows.py", 'pool(c, "average_pool")', 'pool(c, "max_pool")'),
    ("a global sum", "cnn", "onnx_ops.py", 'global_pool("mean")', 'global_pool("sum")'),
    ("a weight of Gemm that is not transposed", "cnn", "onnx_ops.py", "c.input(1) if is_turned else c.turned(1)", "c.input(1)"),
    ("a Gemm without alpha", "gemm", "onnx_ops.py", "        if alpha != 1 or (bias and beta != 1):\n", "        if False:\n"),
    ("a padding that counts", "padded", "windows.py", 'attributes["count_padding"] = False', "pass"),
    ("a product whose matrix is not transposed", "square", "lifts/layers.py", "turned = held.array.T\n", "turned = held.array\n"),
    ("a bias of a product that is lost", "transformer", "lifts/layers.py", "[*product.inputs[:2], as_vector(graph, str(bias))])", "[*product.inputs[:2], None])"),
    ("an epsilon of layer norm that is a default", "transformer", "lifts/norms.py", "return x, variance[1]", "return x, 1e-5"),
    ("layer norm with scale and shift exchanged", "transformer", "lifts/norms.py", '(scale, "scale", 1.0), (shift, "shift", 0.0)', '(shift, "shift", 0.0), (scale, "scale", 1.0)'),
    ("a scale of attention that is a default", "transformer", "lifts/attention.py", "scale = 0.0 if close(scale, 1 / math.sqrt(width)) else scale", "scale = 0.0"),
    ("a scale of the queries that is lost", "transformer", "lifts/attention.py", "scale = number * q_number * k_number", "scale = number * k_number"),
    ("a mask that is lost", "transformer", "lifts/attention.py", "[*operands, mask]", "[*operands, None]"),
    ("any mask that is causal", "transformer", "lifts/attention.py", "(one[~seen] > HIDDEN).any()", "False"),
    ("a mask of the keys that are shown", "where", "lifts/attention.py", "np.where(shown, np.float32(0), MASKED)", "np.where(shown, MASKED, np.float32(0))"),
    ("a mask of another token", "pooled", "lifts/masks.py", "Padding(str(tokens), int(number), Two(", "Padding(str(tokens), int(number) + 1, Two("),
    ("a mean over all tokens", "pooled", "lifts/masks.py", '"mean_pool", [x, padding.mask(graph, root)]', '"mean_pool", [x]'),
    ("GELU always by tanh", "transformer", "lifts/activations.py", '("erf", "none", is_root_of_half)', '("erf", "tanh", is_root_of_half)'),
    ("GELU whatever its factor", "gelu", "lifts/activations.py", "if not close(number, 0.5) or len(operands) != 2:", "if len(operands) != 2:"),
    ("SiLU of any sigmoid", "silu", "lifts/activations.py", "inner is not None and inner.inputs == [x] and", "inner is not None and"),
    ("softsign of any sum", "softsign", "lifts/activations.py", "if absolute is None or absolute.inputs != [x]:", "if absolute is None:"),
    ("one slope for all channels", "prelu", "onnx_ops.py", "array.reshape(-1) if is_of_channels", "array.reshape(-1)[:1] if is_of_channels"),
    ("a slope on the positive side", "prelu", "calls.py", 'c.step("subtract", x, positive)', 'c.step("subtract", positive, x)'),
    ("hard-swish of any clip", "swish", "lifts/activations.py", '(node.attributes["least"], node.attributes["most"]) != (0, 6)', "False"),
    ("positions that begin one row too early", "transformer", "lifts/tables.py", "axis=0, begin=begin, end=end", "axis=0, begin=begin - 1, end=end - 1"),
    ("parts of a split in the wrong order", "transformer", "onnx_shapes.py", "zip(c.outs, parts_of(c, sizes), strict=True)", "zip(c.outs, parts_of(c, sizes)[::-1], strict=True)"),
    ("a slice that begins too early", "transformer", "onnx_shapes.py", 'c.result("slice", x, out=out, axis=axis, begin=begin, end=end)', 'c.result("slice", x, out=out, axis=axis, begin=max(begin - 1, 0), end=end - (begin > 0))'),
    ("two transposes in the wrong order", "turned", "lifts/tidy.py", '[before.attributes["permutation"][i] for i in order]', '[order[i] for i in before.attributes["permutation"]]'),
    ("a softmax over the last dimension", "softmax", "onnx_ops.py", "elif axis == last:", "elif axis >= 0:"),
    ("operands of a difference exchanged", "elementwise", "onnx_ops.py", '"Sub": binary("subtract")', '"Sub": lambda c: c.result("subtract", c.input(1), c.input(0))'),
    ("operands of a quotient exchanged", "elementwise", "onnx_ops.py", '"Div": binary("divide")', '"Div": lambda c: c.result("divide", c.input(1), c.input(0))'),
    ("a leak of another default", "elementwise", "onnx_ops.py", 'plain("leaky_relu", slope=0.01)', 'plain("leaky_relu", slope=0.1)'),
    ("a hard sigmoid of PyTorch", "elementwise", "onnx_ops.py", 'plain("hard_sigmoid", alpha=0.2, beta=0.5)', 'plain("hard_sigmoid", alpha=1 / 6, beta=0.5)'),
    ("a bound that is a thousandth too high", "elementwise", "onnx_ops.py", "**clamped(least, most))", "**clamped(least, most + 1e-3))"),
    ("a mean that is a maximum", "elementwise", "onnx_ops.py", '"ReduceMean": reduce("mean")', '"ReduceMean": reduce("max")'),
    ("gates in the order of ONNX", "lstm", "onnx_recurrent.py", "np.concatenate([i, f, g, o])", "np.concatenate([i, o, f, g])"),
    ("one of two biases", "lstm", "onnx_recurrent.py", "both[: 4 * units] + both[4 * units :]", "both[: 4 * units]"),
    ("the branch that is not taken", "branch", "onnx_reader.py", '"then_branch" if condition', '"else_branch" if condition'),
    ("an epsilon of torch that is a default", "cnn.pt2", "pt2_ops.py", 'epsilon=c.number("eps", 1e-5),\n        momentum', "epsilon=1e-5,\n        momentum"),
    ("weight and bias of torch exchanged", "cnn.pt2", "pt2_ops.py", '        *names,\n        c.tensor("running_mean"),', '        *names[::-1],\n        c.tensor("running_mean"),'),
    ("an op in place that is another", "cnn.pt2", "pt2_ops.py", '"relu": plain("relu")', '"relu": plain("tanh")'),
    ("chunks in the wrong order", "transformer.pt2", "pt2_shapes.py", "zip(c.outs, sizes, strict=True)", "zip(c.outs[::-1], sizes, strict=True)"),
    ("GELU of torch always by erf", "transformer.pt2", "pt2_ops.py", 'approximate=str(c.get("approximate", "none"))', 'approximate="none"'),
    ("attention of torch that is never causal", "transformer.pt2", "pt2_attention.py", "attention_mask(c), causal=causal", "attention_mask(c), causal=False"),
)]  # fmt: skip
