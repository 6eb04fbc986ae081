"""The base of the mutants of wrong.py, wrong_updates.py and cheats.py, and how they get a state, a batch or a
program that is slightly different.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

Tensors = dict[str, np.ndarray]


class Mutant:
    """A mutant's docstring describes the mistake; `cell` is the cell that shows it.

    `cheats`: it tries to deceive the check.
    `shows`: a mistake is found if the name of a wrong tensor begins with one of these.
    `codes`: a cheat is found if the fork ends with one of these reason codes.
    `survives`: why the check cannot find it, if that is known; `survives_in`: the same by backend.
    `alone`: it needs a process and a cache of its own: a child of a preloaded process is not confined, and is
    not a process of the conductor.
    `python_only`: the worker of onednn has no counterpart.
    """

    cell = "train"
    cheats = False
    shows: tuple[str, ...] = ("last/",)
    codes: tuple[str, ...] = ("differs_from_oracle",)
    survives = ""
    survives_in: ClassVar[dict[str, str]] = {}
    alone = False
    python_only = False
    task: str
    kind: type  # the mutant itself, set by mutated()

    @classmethod
    def of(cls, program: Any) -> type:
        """The adapter of a single op is another class: the mutant goes in front of that."""
        found = super().of(program)  # type: ignore[misc]
        return cls if found is cls else type(cls.__name__, (cls.kind, found), {"kind": cls.kind})

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)  # type: ignore[call-arg]
        self.trains = cell.task == "train"
        self.steps_seen = 0
        self.rows = program.batch


class Undrained(Mutant):
    """Its count of steps begins again when a caller waits for it."""

    waiting = 0

    def synchronize(self) -> None:
        self.waiting = 0
        super().synchronize()


class SinceTheState(Mutant):
    """Counts the steps since a state was set."""

    since = 0

    def set_state(self, tensors: Tensors) -> None:
        self.since = 0
        super().set_state(tensors)


class TwoBatches(Mutant):
    """Each slot also has another batch, which a step reads if other_batch() says so."""

    def altered(self, inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the other batch; the arguments are copies."""
        raise NotImplementedError

    def other_batch(self) -> bool:
        raise NotImplementedError

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(2 * slot, inputs, labels)
        super().stage(2 * slot + 1, *self.altered(inputs.copy(), labels.copy()))

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(2 * slot + self.other_batch(), rate, step)


class SwitchesLater(TwoBatches, SinceTheState):
    """From the fourth step on it reads the other batch."""

    def other_batch(self) -> bool:
        return self.since > 3

    def step(self, slot: int, rate: float, step: int) -> None:
        self.since += 1
        super().step(slot, rate, step)


class OtherProgram(Mutant):
    """Compiles a program that differs from the one it was given."""

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(self.changed(program), cell)

    @classmethod
    def changed(cls, program: Any) -> Any:
        raise NotImplementedError


def with_rule(program: Any, **constants: Any) -> Any:
    """Return the program with other constants of its optimizer."""
    return replace(program, update_rule=replace(program.update_rule, **constants))


def with_attributes(program: Any, op: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return the program with other attributes of all nodes of an op, in training and in inference."""

    def of(graph: Any) -> Any:
        nodes = (
            replace(node, attributes=node.attributes | change(node.attributes)) if node.op == op else node
            for node in graph.nodes
        )
        return replace(graph, nodes=tuple(nodes))

    return replace(program, training=of(program.training), inference=of(program.inference))


class Rewritten(Mutant):
    """After a step, tensors of the state are replaced by those that rewritten() returns."""

    def __init__(self, program: Any, cell: Any) -> None:
        super().__init__(program, cell)
        self.rule = program.update_rule
        self.parameters = {value.name: value.shape for value in program.parameters}
        self.states = [value.name for value in program.states]

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        raise NotImplementedError

    def step(self, slot: int, rate: float, step: int) -> None:
        before = {name: np.array(tensor) for name, tensor in super().state().items()}
        super().step(slot, rate, step)
        after = {name: np.array(tensor) for name, tensor in super().state().items()}
        super().set_state(after | self.rewritten(before, after, rate, step))

    def gradient(self, name: str, before: Tensors, after: Tensors) -> np.ndarray:
        """The gradient of a parameter in the last step of Adam, in fp64."""
        beta = self.rule.beta1
        return (np.float64(after[f"{name}.m"]) - beta * np.float64(before[f"{name}.m"])) / (1 - beta)

    def adam(self, name: str, before: Tensors, gradient: np.ndarray, rate: float, step: int) -> Tensors:
        """The parameter and its moments after a step of Adam with this gradient."""
        rule = self.rule
        p, m, v = (np.float64(before[name + moment]) for moment in ("", ".m", ".v"))
        m = rule.beta1 * m + (1 - rule.beta1) * gradient
        v = rule.beta2 * v + (1 - rule.beta2) * gradient * gradient
        root = np.sqrt(v / (1 - rule.beta2**step)) + rule.epsilon
        p = p - rate * (m / (1 - rule.beta1**step)) / root
        return {name + moment: np.float32(t) for moment, t in (("", p), (".m", m), (".v", v))}


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Round to nearest with this number of bits of mantissa: 7 are bf16, 10 are tf32."""
    dropped = 23 - bits
    of_x = np.ascontiguousarray(x, np.float32).view(np.uint32)
    odd = (of_x >> np.uint32(dropped)) & np.uint32(1)
    up = of_x + np.uint32((1 << (dropped - 1)) - 1) + odd
    return (up & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)).view(np.float32)


def first_half_twice(inputs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Replace the second half of a batch by the first; changes the arguments."""
    half = len(labels) // 2
    inputs[half : 2 * half], labels[half : 2 * half] = inputs[:half], labels[:half]
    return inputs, labels


def second_half_of_the_op(program: Any, task: str) -> slice:
    """Where the second half of a single op's first operand is, among all operands one after the other."""
    elements = math.prod(program.graph(task).with_role("input")[0].shape)
    return slice(elements // 2, elements)


def mean_loss(logits: np.ndarray, labels: np.ndarray) -> float:
    shifted = np.float64(logits) - logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], -1)[:, 0]
    return math.fsum(np.log(np.exp(shifted).sum(-1)) - chosen) / len(labels)
