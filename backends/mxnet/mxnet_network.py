"""graph.json as a HybridBlock: one Gluon block per node, called in the order of the graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

from assay_worker import Graph, Node, Program, Unsupported, Value, required
from mxnet import gluon
from mxnet.gluon import nn

# The operands of a node that are values of the program, in order; None for an absent operand.
Operands = list[Value | None]
Make = Callable[..., gluon.Block]


def convolution(operands: Operands, stride: int, padding: int) -> gluon.Block:
    _, weight, bias = operands
    channels, in_channels, *kernel = required(weight).shape
    return nn.Conv2D(channels, kernel, stride, padding, in_channels=in_channels, use_bias=bias is not None)


def linear(operands: Operands, flatten: bool = False) -> gluon.Block:
    _, weight, bias = operands
    units, in_units = required(weight).shape
    return nn.Dense(units, use_bias=bias is not None, flatten=flatten, in_units=in_units)


def average_pool(operands: Operands, kernel: int, stride: int, padding: int) -> gluon.Block:
    return nn.AvgPool2D(kernel, stride, padding, count_include_pad=True)


def max_pool(operands: Operands, kernel: int, stride: int, padding: int) -> gluon.Block:
    return nn.MaxPool2D(kernel, stride, padding)


def batch_norm(operands: Operands, epsilon: float, momentum: float, training: bool) -> gluon.Block:
    # Autograd's mode decides whether this is training, not the block.
    return nn.BatchNorm(momentum=momentum, epsilon=epsilon, in_channels=required(operands[1]).shape[0])


def embedding(operands: Operands, sparse_gradient: bool = False) -> gluon.Block:
    rows, width = required(operands[1]).shape
    return nn.Embedding(rows, width, sparse_grad=sparse_gradient)


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


def multiply(operands: Operands) -> gluon.Block:
    a, b = (required(operand) for operand in operands)
    if a.shape == b.shape:
        return nn.HybridLambda("elemwise_mul")
    ones = (1,) * len(a.shape)
    return nn.HybridLambda(lambda F, a, b: F.broadcast_mul(a, F.reshape(b, ones)))


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


def softmax_cross_entropy(operands: Operands) -> gluon.Block:
    # Gluon returns a loss per sample, and its Trainer expects a network to be trained on these.
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    return nn.HybridLambda(lambda F, logits, labels: F.mean(loss_of.hybrid_forward(F, logits, labels)))


def function(run: Callable[..., Any]) -> Make:
    """An op without attributes, as a function of its operands and F, the module that computes or records."""
    return lambda operands: nn.HybridLambda(run)


def activation(name: str) -> Make:
    return lambda operands: nn.Activation(name)


OPS: dict[str, Make] = {
    "add": function(lambda F, a, b: F.elemwise_add(a, b)),
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "concat": lambda operands, axis: nn.HybridLambda(lambda F, *x: F.concat(*x, dim=axis)),
    "convolution": convolution,
    "dot": function(lambda F, a, b: F.dot(a, b)),
    "dropout": lambda operands, rate: Dropout(rate),
    "embedding": embedding,
    "flatten": lambda operands: nn.Flatten(),
    "from_array": function(lambda F, array: F.array(array)),
    "from_list": function(lambda F, numbers: F.array(numbers)),
    "linear": linear,
    "lstm": lstm,
    "matmul": matmul,
    "max_pool": max_pool,
    "multiply": multiply,
    "normalise": normalise,
    "reduce": reduce,
    "relu": activation("relu"),
    "reshape": lambda operands, shape: nn.HybridLambda(lambda F, x: F.reshape(x, shape=tuple(shape))),
    "sigmoid": activation("sigmoid"),
    "slice": slice_,
    "softmax": function(lambda F, x: F.softmax(x, axis=-1)),
    "softmax_cross_entropy": softmax_cross_entropy,
    "softplus": activation("softrelu"),
    "softsign": activation("softsign"),
    "tanh": activation("tanh"),
    "transpose": lambda operands, permutation: nn.HybridLambda(
        lambda F, x: F.transpose(x, axes=tuple(permutation))
    ),
}
LOSS = "softmax_cross_entropy"
# The operands that a block keeps as its own parameters, by Gluon's names for them.
KEPT = {
    "batch_norm": ("gamma", "beta", "running_mean", "running_var"),
    "convolution": ("weight", "bias"),
    "embedding": ("weight",),
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
    """Inputs (B, ...) to logits (B, classes); autograd's mode decides whether it trains.

    After the inputs come the masks of all dropouts, or no masks: then the dropouts draw. While `telling` is
    set, it returns the operand and the result of each dropout instead of logits. A hybridized network must be
    hybridized again if either changes.
    """

    def __init__(self, program: Program) -> None:
        super().__init__()
        graph = program.training
        self._logits = graph.outputs["logits"]
        self._masks = [value.name for value in program.masks]
        self._dropped = [
            str(name) for n in graph.nodes if n.op == "dropout" for name in (n.inputs[0], n.outputs[0])
        ]
        self.telling = False
        self._plan: list[tuple[gluon.Block, list[str | None], str]] = []
        self._named: dict[str, gluon.Parameter] = {}
        flattened: dict[str | None, str | None] = {}  # Dense does it itself, as in Gluon users' code
        for node in _before_loss(graph):
            if node.op == "flatten" and graph.feeds_only(node, "linear"):
                flattened[node.outputs[0]] = node.inputs[0]
                continue
            flattens = {"flatten": True} if node.inputs[0] in flattened else {}
            block = translate(replace(node, attributes=node.attributes | flattens), graph.values)
            self.register_child(block)
            kept = KEPT.get(node.op, ())
            fed = [flattened.get(name, name) for name in node.inputs[: len(node.inputs) - len(kept)]]
            self._plan.append((block, fed, str(node.outputs[0])))
            for name, attribute in zip(node.inputs[len(fed) :], kept, strict=True):
                if name is not None:
                    self._named[name] = attrgetter(attribute)(block)

    def hybrid_forward(self, F: Any, inputs: Any, *masks: Any) -> Any:
        values = {"inputs": inputs, **dict(zip(self._masks, masks, strict=False))}
        for block, operands, result in self._plan:
            values[result] = block(*[values[name] for name in operands if name in values])
        if self.telling:
            return [values[name] for name in self._dropped]
        return values[self._logits]

    def tensor(self, name: str) -> gluon.Parameter:
        """A parameter or running statistic by its name in the graph."""
        return self._named[name]


def _before_loss(graph: Graph) -> list[Node]:
    if graph.nodes[-1].op != LOSS:
        raise Unsupported(f"[{graph.nodes[-1].op}] the mxnet adapter knows one loss, {LOSS}")
    return list(graph.nodes[:-1])
