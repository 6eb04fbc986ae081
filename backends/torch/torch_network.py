"""graph.json as a module: one function per op, shared parameters for training and inference."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from assay_worker import (
    CAST,
    Graph,
    Node,
    Numbers,
    Program,
    Sides,
    Unsupported,
    elements_inside,
    even,
    names_read,
    pair,
    sides,
    windows,
    with_casts,
)
from torch import Tensor, fx, nn
from torch.utils.checkpoint import checkpoint

Op = Callable[..., Tensor]


def convolution(stride: Numbers, padding: Numbers, dilation: Numbers = 1, groups: int = 1) -> Op:
    strides, dilations, pads = pair(stride), pair(dilation), even(padding)
    if pads is not None:
        return lambda x, weight, bias: F.conv2d(x, weight, bias, strides, pads, dilations, groups)
    # PyTorch pads opposite sides alike.
    rows, columns = sides(padding)
    return lambda x, weight, bias: F.conv2d(
        F.pad(x, (*columns, *rows)), weight, bias, strides, 0, dilations, groups
    )


@dataclass(frozen=True)
class PoolWindow:
    """How PyTorch's pools are called: they pad opposite sides alike, by half of the kernel at most."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: Sides

    @classmethod
    def of(cls, kernel: Numbers, stride: Numbers, padding: Numbers) -> PoolWindow:
        return cls(pair(kernel), pair(stride), sides(padding))

    @property
    def before(self) -> tuple[int, int]:
        return self.padding[0][0], self.padding[1][0]

    def fits(self, image: Sequence[int], ceil: bool) -> bool:
        """Whether its own padding, with this ceil_mode, has the same windows."""
        axes = zip(image, self.kernel, self.stride, self.padding, strict=True)
        return all(
            2 * pads[0] <= size
            and self._count(extent, size, step, pads[0], ceil) == windows(extent, size, step, pads)
            for extent, size, step, pads in axes
        )

    @staticmethod
    def _count(extent: int, size: int, step: int, pad: int, ceil: bool) -> int:
        room = extent + 2 * pad - size
        if not ceil:
            return room // step + 1
        count = -(-room // step) + 1
        return count - 1 if (count - 1) * step >= extent + pad else count

    def padded(self, x: Tensor, value: float) -> Tensor:
        rows, columns = self.padding
        return F.pad(x, (*columns, *rows), value=value)


def average_pool(kernel: Numbers, stride: Numbers, padding: Numbers, count_padding: bool = True) -> Op:
    window = PoolWindow.of(kernel, stride, padding)
    factors: dict[tuple[object, ...], Tensor] = {}  # made once: a captured step copies nothing

    def run(x: Tensor) -> Tensor:
        image = x.shape[2:]
        # The divisor counts the padding: PyTorch's own default, except for what ceil_mode adds.
        ceil = not window.fits(image, False)
        if not ceil or (window.fits(image, True) and not count_padding):
            return F.avg_pool2d(x, window.kernel, window.stride, window.before, ceil, count_padding)
        y = F.avg_pool2d(window.padded(x, 0), window.kernel, window.stride)
        if count_padding:
            return y
        key = (tuple(image), y.dtype, y.device)
        if key not in factors:
            found = math.prod(window.kernel) / elements_inside(image, kernel, stride, padding)
            factors[key] = torch.as_tensor(found, dtype=y.dtype, device=y.device)
        return y * factors[key]

    return run


def local_response_norm(size: int, alpha: float, beta: float, bias: float) -> Op:
    # Sums and powers in fp32.
    return lambda x: F.local_response_norm(x.float(), size, alpha, beta, bias).to(x.dtype)


def max_pool(kernel: Numbers, stride: Numbers, padding: Numbers) -> Op:
    window = PoolWindow.of(kernel, stride, padding)

    def run(x: Tensor) -> Tensor:
        for ceil in (False, True):
            if window.fits(x.shape[2:], ceil):
                return F.max_pool2d(x, window.kernel, window.stride, window.before, ceil_mode=ceil)
        return F.max_pool2d(window.padded(x, -math.inf), window.kernel, window.stride)

    return run


class Again(contextlib.AbstractContextManager["Again"]):
    """The context in which a segment is computed again in the backward pass."""

    entered = False

    def __enter__(self) -> Again:
        Again.entered = True
        return self

    def __exit__(self, *_: object) -> None:
        Again.entered = False


def batch_norm(epsilon: float, momentum: float, training: bool) -> Op:
    def infer(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon)

    def train(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        # PyTorch's momentum is the weight of the new value. Its running variance is unbiased: see unbiased().
        if Again.entered:  # the running statistics have this batch already
            mean, variance = mean.clone(), variance.clone()
        return F.batch_norm(x, mean, variance, weight, bias, True, 1 - momentum, epsilon)

    return train if training else infer


def dropout(rate: float) -> Op:
    def apply(x: Tensor, mask: Tensor | None) -> Tensor:
        # A check supplies a mask; timed steps draw with PyTorch's own generator.
        if mask is None:
            return F.dropout(x, rate, training=True)
        return x * mask.to(x.dtype) * (1 / (1 - rate))

    return apply


def concat(axis: int) -> Op:
    return lambda *values: torch.cat(values, axis)


def hard_sigmoid(alpha: float, beta: float) -> Op:
    if (alpha, beta) == (1 / 6, 0.5):
        return F.hardsigmoid
    return lambda x: F.hardtanh(alpha * x + beta, 0, 1)


def matmul(transpose_a: bool, transpose_b: bool) -> Op:
    return lambda a, b: torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b)


def normalise(axes: list[int], epsilon: float) -> Op:
    # F.normalize takes only one dimension, this norm takes any.
    return lambda x: x / torch.linalg.vector_norm(x, dim=axes, keepdim=True).clamp_min(epsilon)


def reduce(kind: str, axes: list[int]) -> Op:
    function = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}[kind]
    return lambda x: function(x, dim=axes)


def slice_(axis: int, begin: int, end: int) -> Op:
    return lambda x: x.narrow(axis, begin, end - begin)


def softmax_cross_entropy(ignored: int | None = None) -> Op:
    def run(logits: Tensor, labels: Tensor) -> Tensor:
        if logits.dim() > 2:
            logits, labels = logits.flatten(0, -2), labels.flatten()
        if ignored is None:
            return F.cross_entropy(logits.float(), labels)
        # PyTorch's own mean is NaN if no label counts.
        total = F.cross_entropy(logits.float(), labels, ignore_index=ignored, reduction="sum")
        return total / (labels != ignored).sum().clamp_min(1)

    return run


def layer_norm(epsilon: float) -> Op:
    return lambda x, weight, bias: F.layer_norm(x, weight.shape, weight, bias, epsilon)


def rms_norm(epsilon: float) -> Op:
    return lambda x, weight: F.rms_norm(x, weight.shape, weight, epsilon)


def attention(causal: bool, scale: float) -> Op:
    """Scaled dot-product attention; where a mask hides every key, PyTorch's result and gradients are 0."""

    def run(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        queries, keys = q.shape[1], k.shape[1]
        # PyTorch's own causal mask takes no other mask, and aligns the first query with the first key.
        own = causal and mask is None and queries == keys
        if causal and not own:
            seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
            mask = seen if mask is None else mask.masked_fill(~seen, -math.inf)
        y = F.scaled_dot_product_attention(
            *(x.transpose(1, 2) for x in (q, k, v)),
            attn_mask=mask,
            is_causal=own,
            scale=scale or None,
            enable_gqa=q.shape[2] != k.shape[2],
        )
        return y.transpose(1, 2)

    return run


def rotary(base: float, interleaved: bool, inverse: bool = False) -> Op:
    def run(x: Tensor) -> Tensor:
        length, width = x.shape[1], x.shape[3]
        exponents = torch.arange(0, width, 2, dtype=torch.float32, device=x.device) / width
        angles = torch.outer(torch.arange(length, dtype=torch.float32, device=x.device), base**-exponents)
        cos, sin = angles.cos()[:, None], angles.sin()[:, None]
        sin = -sin if inverse else sin
        pairs = x.float().unflatten(3, (-1, 2) if interleaved else (2, -1))
        a, b = pairs.unbind(-1 if interleaved else 3)
        turned = torch.stack((a * cos - b * sin, a * sin + b * cos), -1 if interleaved else 3)
        return turned.flatten(3).to(x.dtype)

    return run


def padding_mask(padding: int) -> Op:
    def run(tokens: Tensor) -> Tensor:
        mask = torch.zeros(tokens.shape, device=tokens.device).masked_fill(tokens == padding, -math.inf)
        return mask[:, None, None]

    return run


def _places(position: Tensor, count: int) -> Tensor:
    """The places of `count` tokens; the first is at the position."""
    return position if count == 1 else position + torch.arange(count, device=position.device)


def tokens_at(length: int) -> Op:
    return lambda tokens, position: tokens.index_select(1, _places(position, length))


def cache_write() -> Op:
    """Writes into the cache itself, as static caches are used."""

    def run(cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
        return cache.index_copy_(1, _places(position, x.shape[1]), x.to(cache.dtype))

    return run


def cache_mask(queries: int, keys: int) -> Op:
    def run(position: Tensor) -> Tensor:
        seen = torch.arange(keys, device=position.device) <= _places(position, queries)[:, None]
        return torch.zeros(seen.shape, device=position.device).masked_fill(~seen, -math.inf)[None, None]

    return run


def advance(by: int) -> Op:
    return lambda position: position.add_(by)


def mean_pool() -> Op:
    def run(x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is None:
            return x.mean(1)
        counted = (mask[:, 0, 0] != -math.inf).unsqueeze(-1).to(x.dtype)
        return (x * counted).sum(1) / counted.sum(1).clamp_min(1)

    return run


def embedding(sparse_gradient: bool = False) -> Op:
    return lambda indices, weight: F.embedding(indices, weight, sparse=sparse_gradient)


@torch.compiler.disable
def _lstm(x: Tensor, weight: Tensor, recurrent_weight: Tensor, bias: Tensor) -> Tensor:
    # As in nn.LSTM.forward; its second bias is zero and frozen: the contract has only one.
    weights = [weight, recurrent_weight, bias, torch.zeros_like(bias)]
    start = x.new_zeros(1, x.shape[0], recurrent_weight.shape[1])
    return torch.lstm(x, (start, start), weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)[0]


def lstm(last: bool) -> Op:
    if not last:
        return _lstm
    return lambda *operands: _lstm(*operands)[:, -1]


OPS: dict[str, Callable[..., Op]] = {
    "add": lambda: torch.add,
    "advance": advance,
    "attention": attention,
    "average_pool": average_pool,
    "batch_norm": batch_norm,
    "cache_mask": cache_mask,
    "cache_write": cache_write,
    # Of torch.clamp the gradient at the bounds is dy.
    "clamp": lambda least, most: lambda x: F.hardtanh(x, least, most),
    "concat": concat,
    "convolution": convolution,
    "divide": lambda: torch.div,
    "dot": lambda: torch.dot,
    "dropout": dropout,
    "elu": lambda alpha: lambda x: F.elu(x, alpha),
    "embedding": embedding,
    "flatten": lambda: lambda x: torch.flatten(x, 1),
    "from_array": lambda in_list=False: partial(torch.tensor, dtype=torch.float32),
    "from_list": lambda: partial(torch.tensor, dtype=torch.float32),
    "gelu": lambda approximate: lambda x: F.gelu(x, approximate=approximate),
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": lambda: F.hardswish,
    "layer_norm": layer_norm,
    "leaky_relu": lambda slope: lambda x: F.leaky_relu(x, slope),
    "linear": lambda: F.linear,
    "lstm": lstm,
    "local_response_norm": local_response_norm,
    "matmul": matmul,
    "max_pool": max_pool,
    "mean_pool": mean_pool,
    "multiply": lambda: torch.mul,
    "normalise": normalise,
    "padding_mask": padding_mask,
    # In fp32: its slopes stay fp32 in bf16, too.
    "prelu": lambda: lambda x, slope: F.prelu(x.float(), slope).to(x.dtype),
    "reduce": reduce,
    "relu": lambda: F.relu,
    "reshape": lambda shape: lambda x: torch.reshape(x, shape),
    "rms_norm": rms_norm,
    "rotary": rotary,
    "selu": lambda: F.selu,
    "sigmoid": lambda: torch.sigmoid,
    "silu": lambda: F.silu,
    "slice": slice_,
    "softmax": lambda: lambda x: F.softmax(x, -1),
    "softmax_cross_entropy": softmax_cross_entropy,
    "softplus": lambda: F.softplus,
    "softsign": lambda: F.softsign,
    "subtract": lambda: torch.sub,
    "tanh": lambda: torch.tanh,
    "tokens_at": tokens_at,
    "transpose": lambda permutation: lambda x: x.permute(permutation),
}


def translate(node: Node) -> Op:
    """Raise Unsupported when PyTorch's adapter has no such op, or not with these attributes."""
    if node.op not in OPS:
        raise Unsupported(f"[{node.op}] the torch adapter has no such op")
    try:
        return OPS[node.op](**node.attributes)
    except TypeError as error:
        raise Unsupported(f"[{node.op}] attributes {node.attributes}: {error}") from error


def unbiased(graph: Graph, shapes: Mapping[str, Sequence[int]]) -> dict[str, float]:
    """Return the ratio of PyTorch's running variances to the contract's, by name.

    PyTorch averages n / (n - 1) times the biased variance of a batch, so the averages have the same ratio.
    `shapes` are those of the normalised images.
    """
    found = {}
    for node in graph.nodes:
        if node.op == "batch_norm" and node.attributes["training"]:
            images, _, *pixels = shapes[str(node.inputs[0])]
            n = images * math.prod(pixels)
            found[str(node.inputs[4])] = n / (n - 1)
    return found


def straight_line(
    nodes: Sequence[Node], arguments: list[str], results: list[str]
) -> Callable[..., tuple[Tensor, ...]]:
    """Let torch.fx write a graph as a person would, with one line per op.

    If torch.compile cannot follow one op of a loop over the ops, it leaves the whole loop uncompiled.
    """
    written = fx.Graph()
    values: dict[str | None, fx.Node | None] = {None: None}
    for i, name in enumerate(arguments):
        values[name] = written.placeholder(f"value{i}")
    for node in nodes:
        op = translate(node)
        if op.__name__ == "<lambda>":
            op.__name__ = f"op_{node.op}"  # fx uses this name
        values[node.outputs[0]] = written.call_function(op, tuple(values[name] for name in node.inputs))
    written.output(tuple(values[name] for name in results))
    return fx.GraphModule(nn.Module(), written).forward


def training_line(
    program: Program, arguments: list[str], results: list[str]
) -> Callable[..., tuple[Tensor, ...]]:
    """The same for the training graph, with a call for each segment that the backward pass computes again."""
    if not program.segments:
        return straight_line(program.training.nodes, arguments, results)
    written = fx.Graph()
    values: dict[str, fx.Node] = {name: written.placeholder(f"value{i}") for i, name in enumerate(arguments)}
    for part in program.training_parts(results):
        first = {node.outputs[0] for node in part.nodes}  # PyTorch's functions return no other result
        gives = [name for name in part.gives if name in first]
        run = straight_line(part.nodes, part.reads, gives)
        call = written.call_function(_segment(run, part.again), tuple(values[name] for name in part.reads))
        for i, name in enumerate(gives):
            values[name] = written.call_function(operator.getitem, (call, i))
    written.output(tuple(values[name] for name in results))
    return fx.GraphModule(nn.Module(), written).forward


def _segment(run: Callable[..., tuple[Tensor, ...]], again: bool) -> Callable[..., tuple[Tensor, ...]]:
    def once(*operands: Tensor) -> tuple[Tensor, ...]:
        return run(*operands)

    def twice(*operands: Tensor) -> tuple[Tensor, ...]:
        if torch.compiler.is_compiling():  # compiled code repeats no update of running statistics
            return checkpoint(run, *operands, use_reentrant=False)
        contexts = (contextlib.nullcontext(), Again())
        return checkpoint(run, *operands, use_reentrant=False, context_fn=lambda: contexts)

    return twice if again else once


# Autocast casts these operands of an op in each call, unless they are bf16 already. An LSTM checks before
# that all its operands have one type.
CAST_OPERANDS = {"convolution": slice(1, 3), "linear": slice(1, 3)}


class Network(nn.Module):
    """The program's parameters and running statistics, and its two graphs over them.

    A running statistic that is named in `scales` is that many times the contract's. With `casts`, an
    inference reads copies of parameters that keep_casts() has made in bf16, as autocast would in each step.
    """

    def __init__(self, program: Program, task: str, casts: bool = False) -> None:
        super().__init__()
        # The name of a parameter has dots, the name of an attribute must not.
        self._attributes = {v.name: v.name.replace(".", "_") for v in program.parameters + program.states}
        for value in program.parameters:
            self.register_parameter(self._attributes[value.name], nn.Parameter(torch.zeros(value.shape)))
        for value in program.states:
            self.register_buffer(self._attributes[value.name], torch.zeros(value.shape))
        self._masks: dict[str, Tensor] = {}
        self._mask_names = [value.name for value in program.masks]
        held = [*self._attributes]
        operands = ["inputs", "labels", *held, *self._mask_names]
        if task == "train":
            graph = program.training
            self._train = training_line(program, operands, [graph.outputs[n] for n in ("loss", "logits")])
            drops = [node for node in graph.nodes if node.op == "dropout"]
            self._dropping = straight_line(
                graph.nodes,
                operands,
                [str(name) for n in drops for name in (n.inputs[0], n.outputs[0])],
            )
        decoding = program.decoding
        graphs = [program.inference, *([decoding.prefill, decoding.step] if decoding else [])]
        if casts:
            graphs = [with_casts(graph, CAST_OPERANDS) for graph in graphs]
            for name in (name for name in names_read(graphs) if name.endswith(CAST)):
                self._attributes[name] = name.replace(".", "_").replace(CAST, "_cast")
                shape = program.inference.values[name.removesuffix(CAST)].shape
                self.register_buffer(self._attributes[name], torch.zeros(shape, dtype=torch.bfloat16))
            # A guard of compiled code for each operand that nobody reads would be time of ours.
            read = set(names_read(graphs))
            held = [name for name in self._attributes if name in read]
        self._casts = [name for name in self._attributes if name.endswith(CAST)]
        self._held_names = {name: self._attributes[name] for name in held}
        self._infer = straight_line(graphs[0].nodes, ["inputs", *held], [graphs[0].outputs["logits"]])
        self.scales = self._scales(program, operands) if task == "train" else {}
        if decoding:
            kept = [value.name for value in (*decoding.caches, decoding.position)]
            self._prefill, self._next_token = (
                straight_line(graph.nodes, ["inputs", *held, *kept], [graph.outputs["logits"]])
                for graph in graphs[1:]
            )

    def forward(self, inputs: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
        """Return the mean loss and the logits in training mode."""
        return self._train(inputs, labels, *self._held(), *self._drawn())

    def infer(self, inputs: Tensor) -> Tensor:
        """Return the logits in inference mode."""
        if not self.scales:
            return self._infer(inputs, *self._held())[0]
        held = dict(zip(self._held_names, self._held(), strict=True))
        for name, scale in self.scales.items():
            held[name] = held[name] / scale
        return self._infer(inputs, *held.values())[0]

    def prefill(self, inputs: Tensor, kept: list[Tensor]) -> Tensor:
        """Return the logits of the last token of the prompts; update the caches and the position, `kept`."""
        return self._prefill(inputs, *self._held(), *kept)[0]

    def next_token(self, inputs: Tensor, kept: list[Tensor]) -> Tensor:
        """The same for one token at the position."""
        return self._next_token(inputs, *self._held(), *kept)[0]

    def keep_casts(self) -> None:
        """Cast the parameters again, which have changed."""
        for name in self._casts:
            self.tensor(name).copy_(self.tensor(name.removesuffix(CAST)))

    def supply_masks(self, masks: dict[str, Tensor]) -> None:
        """Use these masks instead of drawing; empty: draw."""
        self._masks = masks

    @property
    def supplied(self) -> bool:
        return bool(self._masks)

    def drops(self, inputs: Tensor, labels: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the operand and the result of each dropout in training mode."""
        found = self._dropping(inputs, labels, *self._held(), *self._drawn())
        return list(zip(found[::2], found[1::2], strict=True))

    def tensor(self, name: str) -> Tensor:
        """A parameter or running statistic by its name in the graph."""
        return getattr(self, self._attributes[name])

    def _scales(self, program: Program, operands: list[str]) -> dict[str, float]:
        """Run the network without numbers, for the shapes of the normalised images."""
        graph = program.training
        names = [str(node.inputs[0]) for node in graph.nodes if node.op == "batch_norm"]
        if not names:
            return {}
        types = {"i32": torch.int64, "u8": torch.bool}
        fed = [graph.values[name] for name in operands]
        given = [torch.empty(v.shape, dtype=types.get(v.dtype, torch.float32), device="meta") for v in fed]
        with torch.no_grad():
            found = straight_line(graph.nodes, operands, names)(*given)
        return unbiased(graph, {name: one.shape for name, one in zip(names, found, strict=True)})

    def _held(self) -> list[Tensor]:
        return [getattr(self, attribute) for attribute in self._held_names.values()]

    def _drawn(self) -> list[Tensor | None]:
        """The supplied masks, or None for each: then dropout draws."""
        return [self._masks.get(name) for name in self._mask_names]
