"""graph.json as a HybridBlock: one Gluon block per node, called in the order of the graph."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from assay_worker import (
    Graph,
    Node,
    Numbers,
    Program,
    Unsupported,
    Value,
    even,
    last_reads,
    pair,
    required,
    sides,
    windows,
)
from mxnet import gluon
from mxnet.gluon import nn

# The operands of a node that are values of the program, in order; None for an absent operand.
Operands = list[Value | None]
Make = Callable[..., gluon.Block]


def edges(padding: Numbers) -> tuple[int, ...]:
    """Return the paddings of an image as F.pad has them."""
    rows, columns = sides(padding)
    return (0, 0, 0, 0, *rows, *columns)


def pad(widths: tuple[int, ...], value: float, F: Any, x: Any) -> Any:
    return F.pad(x, mode="constant", pad_width=widths, constant_value=value)


class PaddedConvolution(nn.Conv2D):
    """MXNet's own pads opposite sides alike."""

    def __init__(self, padding: Numbers, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._edges = edges(padding)

    def hybrid_forward(self, F: Any, x: Any, weight: Any, bias: Any = None) -> Any:
        return super().hybrid_forward(F, pad(self._edges, 0.0, F, x), weight, bias)


def convolution(
    operands: Operands, stride: Numbers, padding: Numbers, dilation: Numbers = 1, groups: int = 1
) -> gluon.Block:
    _, weight, bias = operands
    channels, of_group, *kernel = required(weight).shape
    pads = even(padding)
    make = nn.Conv2D if pads is not None else partial(PaddedConvolution, padding)
    return make(
        channels,
        kernel,
        pair(stride),
        pads or (0, 0),
        pair(dilation),
        groups,
        in_channels=of_group * groups,
        use_bias=bias is not None,
    )


def linear(operands: Operands, flatten: bool = False) -> gluon.Block:
    _, weight, bias = operands
    units, in_units = required(weight).shape
    return nn.Dense(units, use_bias=bias is not None, flatten=flatten, in_units=in_units)


def own_padding(
    operands: Operands, kernel: Numbers, stride: Numbers, padding: Numbers, ceils: Sequence[bool]
) -> dict[str, Any] | None:
    """Return how MXNet's own pools have these windows, with one of these ceil_modes, or None.

    They pad opposite sides alike. Whether ceil_mode does it depends on the size of the image, which is not
    known of all operands.
    """
    if (pads := even(padding)) is not None:
        return {"padding": pads, "ceil_mode": False}
    if operands[0] is None:
        return None
    image = operands[0].shape[2:]
    axes = list(zip(image, pair(kernel), pair(stride), sides(padding), strict=True))
    for ceil in ceils:
        counts = []
        for extent, size, step, pads in axes:
            room = extent + 2 * pads[0] - size  # below 0, MXNet refuses the window
            counts.append(-1 if room < 0 else (-(-room // step) if ceil else room // step) + 1)
        if counts == [windows(*axis) for axis in axes]:
            return {"padding": tuple(pads[0] for *_, pads in axes), "ceil_mode": ceil}
    return None


def average_pool(
    operands: Operands, kernel: Numbers, stride: Numbers, padding: Numbers, count_padding: bool = True
) -> gluon.Block:
    # What ceil_mode adds does not count.
    ceils = (False,) if count_padding else (False, True)
    own = own_padding(operands, kernel, stride, padding, ceils)
    if own is not None:
        return nn.AvgPool2D(pair(kernel), pair(stride), count_include_pad=count_padding, **own)
    mean, padded = nn.AvgPool2D(pair(kernel), pair(stride)), partial(pad, edges(padding), 0.0)
    if count_padding:
        return nn.HybridLambda(lambda F, x: mean(padded(F, x)))
    return nn.HybridLambda(lambda F, x: mean(padded(F, x)) / mean(padded(F, F.ones_like(x))))


def max_pool(operands: Operands, kernel: Numbers, stride: Numbers, padding: Numbers) -> gluon.Block:
    own = own_padding(operands, kernel, stride, padding, (False, True))
    if own is not None:
        return nn.MaxPool2D(pair(kernel), pair(stride), **own)
    largest, padded = nn.MaxPool2D(pair(kernel), pair(stride)), partial(pad, edges(padding), LEAST)
    return nn.HybridLambda(lambda F, x: largest(padded(F, x)))


def batch_norm(operands: Operands, epsilon: float, momentum: float, training: bool) -> gluon.Block:
    # Autograd's mode decides whether this is training, not the block.
    return nn.BatchNorm(momentum=momentum, epsilon=epsilon, in_channels=required(operands[1]).shape[0])


def embedding(operands: Operands, sparse_gradient: bool = False) -> gluon.Block:
    rows, width = required(operands[1]).shape
    return nn.Embedding(rows, width, sparse_grad=sparse_gradient)


def layer_norm(operands: Operands, epsilon: float) -> gluon.Block:
    return nn.LayerNorm(epsilon=epsilon, in_channels=required(operands[1]).shape[0])


def rms_norm(operands: Operands, epsilon: float) -> gluon.Block:
    def run(F: Any, x: Any, weight: Any) -> Any:
        squares = F.mean(F.square(x), axis=-1, keepdims=True)
        return F.broadcast_mul(F.broadcast_mul(x, F.rsqrt(squares + epsilon)), weight)

    return nn.HybridLambda(run)


def gelu(operands: Operands, approximate: str) -> gluon.Block:
    if approximate == "none":
        return nn.GELU()

    def run(F: Any, x: Any) -> Any:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * F.square(x))
        return 0.5 * x * (1 + F.tanh(inner))

    return nn.HybridLambda(run)


def prelu(operands: Operands) -> gluon.Block:
    # In a hybridized network MXNet's own has a wrong gradient of the slopes: docs/reference/differences.md.
    ones = (1,) * (len(required(operands[0]).shape) - 2)

    def run(F: Any, x: Any, slope: Any) -> Any:
        below = F.broadcast_mul(x, F.reshape(slope, shape=(1, -1, *ones)))
        return F.where(x > 0, x, below)

    return nn.HybridLambda(run)


def binary(of_two: Callable[..., Any], broadcasting: str) -> Make:
    def make(operands: Operands) -> gluon.Block:
        a, b = (operand.shape if operand else None for operand in operands)
        if a is None or b is None or a == b:
            # As users write it. On a CPU imperative MXNet makes a broadcast_add of a sum, with which a step
            # of training of `resnet56` takes 135 ms; with elemwise_add it takes 165 ms.
            return nn.HybridLambda(lambda F, a, b: of_two(a, b))
        ones = (1,) * max(len(a), len(b))  # in place of the shape (), which is unknown to MXNet

        def run(F: Any, left: Any, right: Any) -> Any:
            left, right = (
                x if shape else F.reshape(x, ones) for x, shape in zip((left, right), (a, b), strict=True)
            )
            return getattr(F, broadcasting)(left, right)

        return nn.HybridLambda(run)

    return make


def attention(operands: Operands, causal: bool, scale: float) -> gluon.Block:
    q, k = (required(operand).shape for operand in operands[:2])
    (_, queries, heads, width), (_, keys, groups, _) = q, k
    factor = scale or 1 / math.sqrt(width)

    def split(F: Any, x: Any, repeats: int) -> Any:
        """(N, T, G, D) as (N H, T, D)."""
        x = F.transpose(x, axes=(0, 2, 1, 3))
        x = F.repeat(x, repeats=repeats, axis=1) if repeats > 1 else x
        return F.reshape(x, shape=(-3, 0, 0))

    def run(F: Any, q: Any, k: Any, v: Any, mask: Any = None) -> Any:
        q, k, v = split(F, q, 1), split(F, k, heads // groups), split(F, v, heads // groups)
        scores = F.reshape(F.batch_dot(q * factor, k, transpose_b=True), shape=(-4, -1, heads, 0, 0))
        open_keys = []
        if mask is not None:
            scores = F.broadcast_add(scores, F.maximum(mask, MASKED))  # a row of -inf would give NaN
            open_keys.append(mask > -math.inf)
        if causal:
            later = F.broadcast_greater(
                F.reshape(F.arange(keys), shape=(1, 1, 1, keys)),
                F.reshape(F.arange(queries) + (keys - queries), shape=(1, 1, queries, 1)),
            )
            scores = F.broadcast_add(scores, later * MASKED)
            open_keys.append(1 - later)
        shares = F.reshape(F.softmax(scores, axis=-1), shape=(-3, 0, 0))
        y = F.reshape(F.batch_dot(shares, v), shape=(-4, -1, heads, 0, 0))
        if mask is not None or (causal and queries > keys):
            # A query that sees no key gets zeros.
            seen = F.broadcast_mul(*open_keys) if len(open_keys) > 1 else open_keys[0]
            y = F.broadcast_mul(y, F.max(seen, axis=-1, keepdims=True))
        return F.transpose(y, axes=(0, 2, 1, 3))

    return nn.HybridLambda(run)


def rotary(operands: Operands, base: float, interleaved: bool, inverse: bool = False) -> gluon.Block:
    _, length, _, width = required(operands[0]).shape
    half = width // 2

    def run(F: Any, x: Any) -> Any:
        rates = F.exp(F.arange(half) * (-2 * math.log(base) / width))
        angles = F.broadcast_mul(
            F.reshape(F.arange(length), shape=(1, length, 1, 1)), F.reshape(rates, shape=(1, 1, 1, half))
        )
        cos, sin = F.cos(angles), F.sin(angles)
        sin = -sin if inverse else sin
        if interleaved:
            pairs = F.reshape(x, shape=(0, 0, 0, -4, half, 2))
            a, b = F.split(pairs, num_outputs=2, axis=4, squeeze_axis=True)
        else:
            a, b = F.split(x, num_outputs=2, axis=3)
        parts = [
            F.broadcast_mul(a, cos) - F.broadcast_mul(b, sin),
            F.broadcast_mul(a, sin) + F.broadcast_mul(b, cos),
        ]
        if not interleaved:
            return F.concat(*parts, dim=3)
        return F.reshape(F.stack(*parts, axis=4), shape=(0, 0, 0, -3))

    return nn.HybridLambda(run)


def padding_mask(operands: Operands, padding: int) -> gluon.Block:
    _, length = required(operands[0]).shape

    def run(F: Any, tokens: Any) -> Any:
        padded = F.cast(tokens, "float32") == padding
        mask = F.where(padded, F.ones_like(padded) * -math.inf, F.zeros_like(padded))
        return F.reshape(mask, shape=(-1, 1, 1, length))

    return nn.HybridLambda(run)


def mean_pool(operands: Operands) -> gluon.Block:
    def run(F: Any, x: Any, mask: Any = None) -> Any:
        if mask is None:
            return F.mean(x, axis=1)
        counted = F.reshape(mask > -math.inf, shape=(0, -1, 1))
        return F.broadcast_div(
            F.sum(F.broadcast_mul(x, counted), axis=1), F.maximum(F.sum(counted, axis=1), 1)
        )

    return nn.HybridLambda(run)


class Lstm(gluon.HybridBlock):
    """One layer, batch first. Its second bias stays zero: the contract has only one bias."""

    def __init__(self, inputs: int, hidden: int, last: bool) -> None:
        super().__init__()
        self._last = last
        self.layer = gluon.rnn.LSTM(hidden, layout="NTC", input_size=inputs)
        self.layer.l0_h2h_bias.grad_req = "null"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self._result(F, self.layer(x))

    def with_operands(self, F: Any, batch: int, *operands: Any) -> Any:
        """Do the work of hybrid_forward(), given x, both weights and the contract's bias."""
        x, weight, recurrent_weight, bias = operands
        given = {"l0_i2h_weight": weight, "l0_h2h_weight": recurrent_weight, "l0_i2h_bias": bias}
        self.layer.skip_states = True
        start = self.layer.begin_state(batch, func=F.zeros)
        return self._result(
            F, self.layer.hybrid_forward(F, x, start, l0_h2h_bias=F.zeros_like(bias), **given)
        )

    def _result(self, F: Any, y: Any) -> Any:
        # SequenceLast would crash in 1.9.1.
        return F.squeeze(F.slice_axis(y, axis=1, begin=-1, end=None), axis=1) if self._last else y


def lstm(operands: Operands, last: bool) -> gluon.Block:
    _, weight, recurrent_weight, _ = operands
    return Lstm(required(weight).shape[1], required(recurrent_weight).shape[1], last)


class Dropout(gluon.HybridBlock):
    """Draws with MXNet's own generator, or takes a mask if one is given."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self._scale = 1 / (1 - rate)
        self.draw = nn.Dropout(rate)

    def hybrid_forward(self, F: Any, x: Any, mask: Any = None) -> Any:
        return self.draw(x) if mask is None else x * mask * self._scale


def matmul(operands: Operands, transpose_a: bool, transpose_b: bool) -> gluon.Block:
    transposed = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    product = {2: "dot", 3: "batch_dot"}.get(len(required(operands[0]).shape), "linalg_gemm2")
    return nn.HybridLambda(lambda F, a, b: getattr(F, product)(a, b, **transposed))


def normalise(operands: Operands, axes: list[int], epsilon: float) -> gluon.Block:
    # The bound is on the square, not on the root: the root has no gradient at zero.
    def run(F: Any, x: Any) -> Any:
        squares = F.sum(F.square(x), axis=tuple(axes), keepdims=True)
        return F.broadcast_mul(x, F.rsqrt(F.maximum(squares, epsilon**2)))

    return nn.HybridLambda(run)


def reduce(operands: Operands, kind: str, axes: list[int]) -> gluon.Block:
    return nn.HybridLambda(lambda F, x: getattr(F, kind)(x, axis=tuple(axes)))


def slice_(operands: Operands, axis: int, begin: int, end: int) -> gluon.Block:
    return nn.HybridLambda(lambda F, x: F.slice_axis(x, axis=axis, begin=begin, end=end))


class MaskedLoss(gluon.HybridBlock):
    """One loss per sample, as Gluon's own block has; their mean is that of the labels that count."""

    def __init__(self, ignored: int, labels: tuple[int, ...]) -> None:
        super().__init__()
        self._ignored, self._batch = ignored, labels[0]

    def hybrid_forward(self, F: Any, logits: Any, labels: Any) -> Any:
        labels = F.cast(labels, "float32")
        counted = labels != self._ignored
        losses = -F.pick(F.log_softmax(logits, axis=-1), labels, axis=-1) * counted
        factor = self._batch / F.maximum(F.sum(counted), 1)
        return F.broadcast_mul(F.sum(losses, axis=0, exclude=True), factor)


def loss(ignored: int | None, labels: tuple[int, ...]) -> gluon.HybridBlock:
    """Return the block from logits and labels of that shape to a loss per sample."""
    # Gluon's Trainer expects a network to be trained on these.
    return gluon.loss.SoftmaxCrossEntropyLoss() if ignored is None else MaskedLoss(ignored, labels)


def softmax_cross_entropy(operands: Operands, ignored: int | None = None) -> gluon.Block:
    loss_of = loss(ignored, required(operands[1]).shape)
    return nn.HybridLambda(lambda F, logits, labels: F.mean(loss_of.hybrid_forward(F, logits, labels)))


def function(run: Callable[..., Any]) -> Make:
    """An op as a function of its operands and F, the module that computes or records."""
    return lambda operands, in_list=False: nn.HybridLambda(run)


def activation(name: str) -> Make:
    return lambda operands: nn.Activation(name)


OPS: dict[str, Make] = {
    "add": binary(operator.add, "broadcast_add"),
    "attention": attention,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "clamp": lambda operands, least, most: nn.HybridLambda(lambda F, x: F.clip(x, least, most)),
    "concat": lambda operands, axis: nn.HybridLambda(lambda F, *x: F.concat(*x, dim=axis)),
    "convolution": convolution,
    "divide": binary(operator.truediv, "broadcast_div"),
    "dot": function(lambda F, a, b: F.dot(a, b)),
    "dropout": lambda operands, rate: Dropout(rate),
    "elu": lambda operands, alpha: nn.ELU(alpha),
    "embedding": embedding,
    "flatten": lambda operands: nn.Flatten(),
    "from_array": function(lambda F, array: F.array(array)),
    "from_list": function(lambda F, numbers: F.array(numbers)),
    "gelu": gelu,
    "hard_sigmoid": lambda operands, alpha, beta: nn.HybridLambda(
        lambda F, x: F.hard_sigmoid(x, alpha=alpha, beta=beta)
    ),
    "hard_swish": function(lambda F, x: x * F.hard_sigmoid(x, alpha=1 / 6, beta=0.5)),
    "layer_norm": layer_norm,
    "leaky_relu": lambda operands, slope: nn.LeakyReLU(slope),
    "linear": linear,
    "lstm": lstm,
    "local_response_norm": lambda operands, size, alpha, beta, bias: nn.HybridLambda(
        lambda F, x: F.LRN(x, nsize=size, alpha=alpha, beta=beta, knorm=bias)
    ),
    "matmul": matmul,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "multiply": binary(operator.mul, "broadcast_mul"),
    "normalise": normalise,
    "padding_mask": padding_mask,
    "prelu": prelu,
    "reduce": reduce,
    "relu": activation("relu"),
    "reshape": lambda operands, shape: nn.HybridLambda(lambda F, x: F.reshape(x, shape=tuple(shape))),
    "rms_norm": rms_norm,
    "rotary": rotary,
    # MXNet's own SELU has a wrong gradient below 0: docs/reference/differences.md.
    "selu": function(
        lambda F, x: F.LeakyReLU(x, act_type="elu", slope=1.6732632423543772) * 1.0507009873554805
    ),
    "sigmoid": activation("sigmoid"),
    "silu": lambda operands: nn.Swish(),
    "slice": slice_,
    "softmax": function(lambda F, x: F.softmax(x, axis=-1)),
    "softmax_cross_entropy": softmax_cross_entropy,
    "softplus": activation("softrelu"),
    "softsign": activation("softsign"),
    "subtract": binary(operator.sub, "broadcast_sub"),
    "tanh": activation("tanh"),
    "transpose": lambda operands, permutation: nn.HybridLambda(
        lambda F, x: F.transpose(x, axes=tuple(permutation))
    ),
}
LOSS = "softmax_cross_entropy"
LEAST = -3.4e38  # loses against every value
MASKED = -1e38  # in place of -inf; less by far than any product of a query and a key
# The operands that a block keeps as its own parameters, by Gluon's names for them.
KEPT = {
    "batch_norm": ("gamma", "beta", "running_mean", "running_var"),
    "convolution": ("weight", "bias"),
    "embedding": ("weight",),
    "layer_norm": ("gamma", "beta"),
    "linear": ("weight", "bias"),
    "lstm": ("layer.l0_i2h_weight", "layer.l0_h2h_weight", "layer.l0_i2h_bias"),
}


def translate(node: Node, values: dict[str, Value]) -> gluon.Block:
    """Raise Unsupported when MXNet's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the mxnet adapter has no such op")
    operands = [values.get(name) if name else None for name in node.inputs]
    try:
        return OPS[node.op](operands, **node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


def apply(node: Node, block: gluon.Block, F: Any, operands: list[Any], batch: int) -> Any:
    """Run a single op from translate(), with the block's own parameters given as operands."""
    if isinstance(block, Lstm):
        return block.with_operands(F, batch, *operands)
    kept = KEPT.get(node.op, ())
    fed = operands[: len(operands) - len(kept)]
    return block.hybrid_forward(F, *fed, **dict(zip(kept, operands[len(fed) :], strict=True)))


class Network(gluon.HybridBlock):
    """Inputs (B, ...) to logits (..., classes); autograd's mode decides whether it trains.

    After the inputs come the masks of all dropouts, or no masks: then the dropouts draw. While `telling` is
    set, it returns the operand and the result of each dropout instead of logits. A hybridized network must be
    hybridized again if either changes. Parameters that no block keeps, such as positions, or that more than
    one node reads, such as tied tables, are its own.
    """

    def __init__(self, program: Program, task: str) -> None:
        super().__init__()
        graph = program.graph(task)
        self._logits = graph.outputs["logits"]
        self._masks = [value.name for value in program.masks]
        self._dropped = [
            str(name) for n in graph.nodes if n.op == "dropout" for name in (n.inputs[0], n.outputs[0])
        ]
        self.telling = False
        self._plan: list[tuple[Callable[..., Any], list[str | None], str]] = []
        self._named: dict[str, gluon.Parameter] = {}
        self._own: dict[str, str] = {}  # from the attributes of its own parameters to their names
        flattened: dict[str | None, str | None] = {}  # Dense does it itself, as in Gluon users' code
        for node in _before_loss(graph) if task == "train" else graph.nodes:
            if node.op == "flatten" and graph.feeds_only(node, "linear"):
                flattened[node.outputs[0]] = node.inputs[0]
                continue
            flattens = {"flatten": True} if node.inputs[0] in flattened else {}
            block = translate(replace(node, attributes=node.attributes | flattens), graph.values)
            kept = KEPT.get(node.op, ())
            fed = [flattened.get(name, name) for name in node.inputs[: len(node.inputs) - len(kept)]]
            parameters = dict(zip(kept, node.inputs[len(fed) :], strict=True))
            if any(name and graph.reads_of(name) > 1 for name in parameters.values()):
                fed, parameters = [*fed, *parameters.values()], {}
                self._plan.append((_Applied(node, block), fed, str(node.outputs[0])))
            else:
                self.register_child(block)
                self._plan.append((_Called(block), fed, str(node.outputs[0])))
            for attribute, name in parameters.items():
                if name is not None:
                    self._named[name] = attrgetter(attribute)(block)
            for name in fed:
                if name in graph.values and graph.values[name].role in ("parameter", "state"):
                    self._keep(graph.values[name])
        for value in graph.with_role("state"):  # one that no batch norm updates is a constant
            self._named[value.name].grad_req = "null"
        self._read_last = last_reads(
            [(operands, [result]) for _, operands, result in self._plan], {self._logits, *self._dropped}
        )
        self._chain = self._blocks_in_a_row()

    def hybrid_forward(self, F: Any, inputs: Any, *masks: Any, **own: Any) -> Any:
        if self._chain:
            for block in self._chain:
                inputs = block(inputs)
            return inputs
        values: dict[str | None, Any] = {"inputs": inputs}
        values.update(zip(self._masks, masks, strict=False))
        values.update((self._own[attribute], parameter) for attribute, parameter in own.items())
        for (run, operands, result), read_last in zip(self._plan, self._read_last, strict=True):
            values[result] = run(F, [values.get(name) for name in operands])
            for name in read_last:
                del values[name]
        if self.telling:
            return [values[name] for name in self._dropped]
        return values[self._logits]

    def tensor(self, name: str) -> gluon.Parameter:
        """A parameter or running statistic by its name in the graph."""
        return self._named[name]

    def _blocks_in_a_row(self) -> list[gluon.Block]:
        """The blocks if each takes only the result of the one before, as in a HybridSequential; else none.

        A dictionary of values costs 4 % of a small network's inference.
        """
        before, blocks = "inputs", []
        for run, operands, result in self._plan:
            if not isinstance(run, _Called) or operands != [before]:
                return []
            before = result
            blocks.append(run.block)
        return blocks if before == self._logits else []

    def _keep(self, value: Value) -> None:
        if value.name in self._named:
            return
        attribute = value.name.replace(".", "_")
        self._named[value.name] = parameter = self.params.get(attribute, shape=value.shape)
        self._own[attribute] = value.name
        setattr(self, attribute, parameter)


class _Called:
    """A node whose block keeps its parameters."""

    def __init__(self, block: gluon.Block) -> None:
        self.block = block

    def __call__(self, F: Any, operands: list[Any]) -> Any:
        while operands and operands[-1] is None:
            operands = operands[:-1]
        return self.block(*operands)


class _Applied:
    """A node whose parameters are operands. Its block is not a child: it computes without its own."""

    def __init__(self, node: Node, block: gluon.Block) -> None:
        self._node, self._block = node, block

    def __call__(self, F: Any, operands: list[Any]) -> Any:
        return apply(self._node, self._block, F, operands, 0)


def _before_loss(graph: Graph) -> list[Node]:
    if graph.nodes[-1].op != LOSS:
        raise Unsupported(f"[{graph.nodes[-1].op}] the mxnet adapter knows one loss, {LOSS}")
    return list(graph.nodes[:-1])
