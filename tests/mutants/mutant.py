"""What mutants have in common. A mutant is a class in front of an adapter's own that changes one thing of it.

Most change what they are given by one function: changed_step(), changed_batch(), rewritten() or edit(). of()
makes such a mutant in a line of a table. The others are classes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from assay_worker.program import Program

Tensors = dict[str, np.ndarray]


class Step(NamedTuple):
    slot: int
    rate: float
    number: int


class Batch(NamedTuple):
    slot: int
    inputs: np.ndarray
    labels: np.ndarray


class Mutant:
    """A mutant's docstring describes the mistake; `cell` is the cell that shows it.

    `cheats`: it tries to deceive the check.
    `codes`: it is found if the fork ends with one of these reason codes.
    `shows`: if results are wrong, the name of a wrong tensor begins with one of these.
    `only_in`: the backends in which it changes anything; all if empty.
    `survives`: why the check cannot find it, if that is known; `survives_in`: the same by backend.
    `alone`: it needs a process and a cache of its own: a child of a preloaded process is not confined, and is
    not a process of the conductor.
    `python_only`: it changes the worker in Python, and onednn's is in C++, or it decodes, which the bridge to
    onednn does not.
    """

    cell = "train"
    cheats = False
    shows: tuple[str, ...] = ("last/",)
    codes: tuple[str, ...] = ("differs_from_oracle",)
    survives = ""
    survives_in: ClassVar[dict[str, str]] = {}
    only_in: tuple[str, ...] = ()
    alone = False
    python_only = False
    kind: type  # the mutant itself, set by mutated()

    edit: Callable[[dict[str, Any]], None] | None = None  # changes what is read from graph.json
    changed_batch: Callable[[Batch], Batch | None] | None = None  # of a copy; its result None: not staged

    @classmethod
    def of(cls, program: Program) -> type:
        """The adapter of a single op is another class: the mutant goes in front of that."""
        found = super().of(program)  # type: ignore[misc]
        return cls if found is cls else type(cls.__name__, (cls.kind, found), {"kind": cls.kind})

    def __init__(self, program: Program, cell: Any) -> None:
        self.folder, self.task, self.rank, self.world = cell.folder, cell.task, cell.rank, cell.world
        self.document = json.loads((cell.folder / "graph.json").read_text())
        if self.edit:
            self.edit(self.document)
            program = Program.from_json(self.document)
        self.network = program
        self.steps = 0  # since the start
        self.since = 0  # steps since a state was set
        self.waiting = 0  # steps since a caller waited
        self.first_rate = 0.0  # the first that is not 0
        self.staged: set[int] = set()  # slots
        self.fresh: set[int] = set()  # slots with a batch that no step has read
        self.batches = 0  # since a state was set
        self.reports = 0  # of its memory: after compiling, and after the run
        super().__init__(program, cell)  # type: ignore[call-arg]

    def set_state(self, tensors: Tensors) -> None:
        self.since = self.batches = 0
        super().set_state(tensors)  # type: ignore[misc]

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        batch: Batch | None = Batch(slot, inputs, labels)
        if self.changed_batch:
            batch = self.changed_batch(Batch(slot, inputs.copy(), labels.copy()))
        if batch:
            super().stage(batch.slot, np.ascontiguousarray(batch.inputs), batch.labels)  # type: ignore[misc]
        self.staged.add(slot)
        self.fresh.add(slot)
        self.batches += 1

    def changed_step(self, step: Step) -> Step | None:
        """Return the step that is done instead; None: none is."""
        return step

    def step(self, slot: int, rate: float, number: int) -> None:
        self.steps, self.since, self.waiting = self.steps + 1, self.since + 1, self.waiting + 1
        self.first_rate = self.first_rate or rate
        if changed := self.changed_step(Step(slot, rate, number)):
            super().step(*changed)  # type: ignore[misc]
        self.fresh.discard(slot)

    def synchronize(self) -> None:
        self.waiting = 0
        super().synchronize()  # type: ignore[misc]

    def memory(self) -> dict[str, int]:
        self.reports += 1
        found: dict[str, int] = super().memory()  # type: ignore[misc]
        return found


def of(what: str, base: type[Mutant] = Mutant, **parts: Any) -> type[Mutant]:
    """Make a mutant that does `what` by changing these parts of its base."""
    return type("Of", (base,), {"__doc__": what, **parts})


class OfLaterForks(Mutant):
    """It is honest in the first fork of a cell and after each run, and may cheat when it is timed `later`.

    It writes to the folder that the forks of a run share, which a preloaded process may: it is not confined.
    """

    python_only = True  # onednn's process is confined

    def __init__(self, program: Program, cell: Any) -> None:
        met: Path = cell.folder.parent / "met"
        self.later = met.exists()
        met.touch()
        super().__init__(program, cell)

    def set_state(self, tensors: Tensors) -> None:
        # A resident worker is restarted in an empty folder.
        if self.reports > 1 and not (self.folder / "results/clock.json").exists():
            self.later = True
        super().set_state(tensors)

    def memory(self) -> dict[str, int]:
        found = super().memory()
        self.later = self.later and self.reports < 2
        return found


class TwoBatches(Mutant):
    """Each slot also has another batch, which a step reads if other_batch() says so."""

    def altered(self, batch: Batch) -> Batch:
        """Return the other batch; the arguments are copies."""
        raise NotImplementedError

    def other_batch(self) -> bool:
        """From the fourth step on."""
        return self.since > 3

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        super().stage(2 * slot, inputs, labels)
        super().stage(*self.altered(Batch(2 * slot + 1, inputs.copy(), labels.copy())))

    def changed_step(self, step: Step) -> Step:
        return step._replace(slot=2 * step.slot + self.other_batch())


class Rewritten(Mutant):
    """After a step, tensors of the state are replaced by those that rewritten() returns."""

    before: Tensors
    after: Tensors
    made: Step  # the last one

    def rewritten(self) -> Tensors:
        raise NotImplementedError

    def step(self, slot: int, rate: float, number: int) -> None:
        self.before, self.made = copied(super().state()), Step(slot, rate, number)  # type: ignore[misc]
        super().step(slot, rate, number)
        self.after = copied(super().state())  # type: ignore[misc]
        super(Mutant, self).set_state(self.after | self.rewritten())  # type: ignore[misc]  # it is no new start

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Those of the parameters, by name."""
        return {value.name: value.shape for value in self.network.parameters}

    def gradient(self, name: str) -> np.ndarray:
        """The gradient of a parameter in the last step of Adam, in fp64."""
        beta = self.network.optimizer.beta1
        m, old = (np.float64(state[f"{name}.m"]) for state in (self.after, self.before))
        return (m - beta * old) / (1 - beta)

    def adam(self, name: str, gradient: np.ndarray) -> Tensors:
        """The parameter and its moments after a step of Adam with this gradient."""
        rule = self.network.optimizer
        m, v = (np.float64(self.before[name + moment]) for moment in (".m", ".v"))
        m = rule.beta1 * m + (1 - rule.beta1) * gradient
        v = rule.beta2 * v + (1 - rule.beta2) * gradient * gradient
        return {name: self.moved(name, m, v), f"{name}.m": np.float32(m), f"{name}.v": np.float32(v)}

    def moved(self, name: str, m: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The parameter after a step of Adam to these moments."""
        rule, (_, rate, number) = self.network.optimizer, self.made
        root = np.sqrt(v / (1 - rule.beta2**number)) + rule.epsilon
        return np.float32(self.before[name] - rate * (m / (1 - rule.beta1**number)) / root)


def with_rule(**constants: Any) -> Any:
    """An edit: other constants of the optimizer."""
    return staticmethod(lambda document: document["optimizer"].update(constants))


def with_attribute(op: str, name: str, change: Callable[[float], float]) -> Any:
    """An edit: another number as attribute of all nodes of an op, in training and in inference."""

    def edit(document: dict[str, Any]) -> None:
        for graph in (document["training"], document["inference"]):
            for node in graph["nodes"]:
                if node["op"] == op:
                    node["attributes"][name] = change(node["attributes"][name])

    return staticmethod(edit)


def copied(tensors: Tensors) -> Tensors:
    return {name: np.array(tensor) for name, tensor in tensors.items()}


def has_moments(tensors: Tensors) -> bool:
    return any(name.endswith(".v") for name in tensors)


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Round to nearest with this number of bits of mantissa: 7 are bf16, 10 are tf32."""
    dropped = 23 - bits
    of_x = np.ascontiguousarray(x, np.float32).view(np.uint32)
    odd = (of_x >> np.uint32(dropped)) & np.uint32(1)
    up = of_x + np.uint32((1 << (dropped - 1)) - 1) + odd
    return (up & np.uint32(0xFFFFFFFF << dropped & 0xFFFFFFFF)).view(np.float32)


def in_bf16(_: Mutant, batch: Batch) -> Batch:
    return batch._replace(inputs=rounded(batch.inputs, 7))


def first_half_twice(_: Mutant, batch: Batch) -> Batch:
    half = len(batch.labels) // 2
    for array in batch[1:]:
        array[half : 2 * half] = array[:half]
    return batch


def without_half_of_the_op(mutant: Mutant, batch: Batch) -> Batch:
    """The second half of a single op's first operand is zero."""
    elements = math.prod(mutant.network.graph(mutant.task).with_role("input")[0].shape)
    batch.inputs.reshape(-1)[elements // 2 : elements] = 0
    return batch
