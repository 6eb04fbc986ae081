"""A backend in plain numpy: the example of docs/reference/protocol.md. A worker needs no C++."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "backends" / "python"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from assay_worker import (
    CLIP_EPSILON,
    Adapter,
    Cell,
    Exchange,
    Graph,
    Info,
    OpAdapter,
    Program,
    TrainingAdapter,
    Unsupported,
    worker_main,
)
from ops import OPS, Backward
from ranks import Ranks

Tensors = dict[str, np.ndarray]


def refuse_unknown(graph: Graph) -> None:
    for node in graph.nodes:
        if node.op not in OPS:
            raise Unsupported(f"[{node.op}] plain numpy has no such op")


def drawn_masks(graph: Graph, random: np.random.Generator) -> Tensors:
    rates = {node.inputs[1]: node.attributes["rate"] for node in graph.nodes if node.op == "dropout"}
    return {
        str(name): (random.random(graph.values[str(name)].shape) >= rate).astype(np.uint8)
        for name, rate in rates.items()
    }


class NumpyAdapter(TrainingAdapter):
    """Runs the graph op by op, forwards and then backwards."""

    @classmethod
    def info(cls, cell: Cell) -> Info:
        return Info("numpy", np.__version__)

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return NumpyOp if program.is_op else cls

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_unknown(program.graph(cell.task))
        self._program, self._train = program, cell.task == "train"
        self._batches: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._loss = float("nan")
        self._logits: np.ndarray | None = None  # of the last inference
        self._state: Tensors = {}
        self._supplied: Tensors = {}
        self._random = np.random.default_rng(cell.seed)
        self._ranks = Ranks(cell.rank, cell.world, cell.rendezvous) if cell.world > 1 else None

    def set_state(self, tensors: Tensors) -> None:
        self._state = {}
        for value in self._program.parameters:
            self._state[value.name] = tensors[value.name].copy()
            for moment in self._program.optimizer.moments if self._train else ():
                name = f"{value.name}.{moment}"
                self._state[name] = np.array(tensors.get(name, np.zeros(value.shape)), np.float32)

    def state(self) -> Tensors:
        return self._state

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._batches[slot] = inputs.copy(), labels.copy()

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        inputs, labels = self._batches[slot]
        if not self._train:
            self._logits = self.evaluate(inputs)
            return
        found = self.gradients(inputs, labels)
        self._loss = float(found["loss"])
        gradients = {value.name: found[f"gradient/{value.name}"] for value in self._program.parameters}
        if self._ranks:
            gradients = self._averaged(gradients)
        scale = 1.0
        if limit := self._program.optimizer.clip_norm:
            norm = np.sqrt(sum(float((g * g).sum(dtype=np.float64)) for g in gradients.values()))
            scale = min(1.0, limit / (norm + CLIP_EPSILON))
        for name, gradient in gradients.items():
            self._update(name, gradient * np.float32(scale), learning_rate, step)

    def _averaged(self, gradients: Tensors) -> Tensors:
        """The means over the ranks, exchanged as one array."""
        if self._ranks is None:
            return gradients
        mean = self._ranks.mean(np.concatenate([gradient.ravel() for gradient in gradients.values()]))
        ends = np.cumsum([gradient.size for gradient in gradients.values()])
        parts = np.split(mean, ends[:-1])
        return {
            name: part.reshape(gradients[name].shape) for name, part in zip(gradients, parts, strict=True)
        }

    def agree(self, value: int) -> int:
        return super().agree(value) if self._ranks is None else self._ranks.agree(value)

    def exchange(self) -> Exchange:
        if self._ranks is None:
            return super().exchange()
        ranks = self._ranks
        gradients = np.zeros(sum(math.prod(value.shape) for value in self._program.parameters), np.float32)

        def local_step(slot: int, learning_rate: float, step: int) -> None:
            self._ranks = None
            self.step(slot, learning_rate, step)
            self._ranks = ranks

        def bare() -> None:
            ranks.mean(gradients)

        return Exchange(gradients.nbytes, local_step, bare)

    def synchronize(self) -> None:
        pass

    def loss(self) -> float:
        return self._loss

    def results(self) -> Tensors:
        return {} if self._logits is None else {"logits": self._logits}

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        graph = self._program.inference
        return self._forward(graph, {"inputs": inputs})[0][graph.outputs["logits"]]

    def supply_masks(self, masks: Tensors) -> None:
        self._supplied = masks

    def seed_masks(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def draw_masks(self, slot: int) -> Tensors:
        return self._masks()

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        """Training-mode "logits", "loss" and "gradient/<parameter>"."""
        graph = self._program.training
        values, backwards = self._forward(graph, {"inputs": inputs, "labels": labels, **self._masks()})
        loss = graph.outputs["loss"]
        found: Tensors = {loss: np.ones((), np.float32)}
        for node, backward in zip(reversed(graph.nodes), reversed(backwards), strict=True):
            if node.outputs[0] not in found:  # such as a mask: the loss does not depend on it smoothly
                continue
            for name, gradient in zip(node.inputs, backward(found[str(node.outputs[0])]), strict=False):
                if name is not None and gradient is not None:
                    found[name] = found[name] + gradient if name in found else gradient
        gradients = {f"gradient/{value.name}": found[value.name] for value in self._program.parameters}
        return {"logits": values[graph.outputs["logits"]], "loss": values[loss], **gradients}

    def _forward(self, graph: Graph, feeds: Tensors) -> tuple[Tensors, list[Backward]]:
        values = {**self._state, **feeds}
        backwards: list[Backward] = []
        for node in graph.nodes:
            operands = [None if name is None else values[name] for name in node.inputs]
            values[str(node.outputs[0])], backward = OPS[node.op](*operands, **node.attributes)
            backwards.append(backward)
        return values, backwards

    def _masks(self) -> Tensors:
        return self._supplied or drawn_masks(self._program.training, self._random)

    def _update(self, name: str, g: np.ndarray, learning_rate: float, step: int) -> None:
        o, p = self._program.optimizer, self._state[name]
        if o.decay_is_coupled:
            g = g + o.decay_of(p.shape) * p
        else:
            p *= 1 - learning_rate * o.decay_of(p.shape)
        if o.counts_steps:
            m, v = self._state[f"{name}.m"], self._state[f"{name}.v"]
            m += (1 - o.beta1) * (g - m)
            v += (1 - o.beta2) * (g * g - v)
            p -= learning_rate * (m / (1 - o.beta1**step)) / (np.sqrt(v / (1 - o.beta2**step)) + o.epsilon)
        elif o.kind == "rmsprop":
            s = self._state[f"{name}.square"]
            s += (1 - o.decay) * (g * g - s)
            p -= learning_rate * g / (np.sqrt(s) + o.epsilon)
        elif o.momentum:
            v = self._state[f"{name}.momentum"]
            v *= o.momentum
            v += g
            p -= learning_rate * v
        else:
            p -= learning_rate * g


class NumpyOp(OpAdapter):
    """A single op: forwards, and in training backwards from the gradient that it is given."""

    def __init__(self, program: Program, cell: Cell) -> None:
        refuse_unknown(program.graph(cell.task))
        if len(program.inference.nodes) != 1:
            raise Unsupported("[op] plain numpy runs one node at a time")
        super().__init__(program, cell)
        self._random = np.random.default_rng(cell.seed)
        self._node = self.graph.nodes[0]

    def place(self, name: str, array: np.ndarray) -> np.ndarray:
        return array.copy()

    def fetch(self, name: str, tensor: np.ndarray) -> np.ndarray:
        return tensor

    def compute(self, given: list[Any], cotangents: list[Any]) -> list[Any]:
        values = dict(zip(self.given, given, strict=True))
        if self.masks and values[self.masks[0]] is None:
            values |= drawn_masks(self.graph, self._random)
        operands = [None if name is None else values[name] for name in self._node.inputs]
        y, backward = OPS[self._node.op](*operands, **self._node.attributes)
        if not self.is_training:
            return [y]
        gradients = dict(zip(self._node.inputs, backward(cotangents[0]), strict=False))
        return [y, *(gradients[name] for name in self.differentiated)]

    def synchronize(self) -> None:
        pass


if __name__ == "__main__":
    worker_main(lambda: NumpyAdapter)
