"""The contract of a Python backend for a single op: it takes operands and returns results and gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .adapter import Adapter
from .cell import Cell
from .errors import Unsupported
from .program import Node, Program
from .tensors import Tensors


def boxed_numbers(tagged: np.ndarray) -> list[int | float]:
    """Make a list for the op from_list from (N, 2) rows: a tag (0 integer, 1 real) and a value."""
    return [float(value) if tag else int(value) for tag, value in tagged.tolist()]


def list_of_rows(array: np.ndarray) -> list[np.ndarray]:
    return list(np.copy(array))


def of_python(node: Node) -> Callable[[np.ndarray], Any] | None:
    """Return what makes the operand of this node that stays an array or a list of Python until the step."""
    if node.op == "from_list":
        return boxed_numbers
    if node.op == "from_array":
        return list_of_rows if node.attributes.get("in_list") else np.copy
    return None


class OpAdapter(Adapter):
    """Keeps operands in slots, states by name, and the results of the last step.

    Dropout takes a mask as its last operand: None if it draws, a supplied mask in a check.
    A subclass translates the graph's nodes with the same table as its networks. It defines how an array
    gets to its device and back, and how a step is computed.
    """

    def __init__(self, program: Program, cell: Cell) -> None:
        self.program, self.cell = program, cell
        self.is_training = cell.task == "train"
        self.graph = graph = program.graph(cell.task)
        self._host = {str(node.inputs[0]): make for node in graph.nodes if (make := of_python(node))}
        if self._host and cell.mode not in ("eager", "function"):
            raise Unsupported(
                f"[{graph.name}] an array or a list cannot become a tensor in compiled code: --mode eager"
            )
        self.masks = [value.name for value in graph.with_role("mask")]
        self._supplied: list[Any] = [None for _ in self.masks]
        cotangents = set(program.cotangents.values())
        fed = [value.name for value in graph.with_role("input")]
        self.operands = [name for name in fed if name not in cotangents]
        self.given = [*self.operands, *self.masks]
        self.cotangents = [name for name in program.cotangents.values() if self.is_training]
        self.differentiated = program.differentiated if self.is_training else []
        self.states: dict[str, Any] = {}
        self._slots: dict[int, tuple[list[Any], list[Any]]] = {}
        self._found: Sequence[Any] = ()

    @abstractmethod
    def place(self, name: str, array: np.ndarray) -> Any:
        """Return a copy of an operand, a result's gradient or a state, in the form that the op reads."""

    @abstractmethod
    def fetch(self, name: str, tensor: Any) -> np.ndarray:
        """Return an output, the gradient of the operand of that name or a state, in the contract's layout."""

    @abstractmethod
    def compute(self, given: list[Any], cotangents: list[Any]) -> Sequence[Any]:
        """Return the outputs, and in training the gradients, for the operands `given`; keep new states.

        The gradients are those of `differentiated`, after the outputs.
        """

    def set_state(self, tensors: Tensors) -> None:
        for value in self.program.states:
            given = tensors.get(value.name)
            if given is None:
                given = np.full(value.shape, value.initializer == "ones", np.float32)
            self.states[value.name] = self.place(value.name, np.array(given, np.float32))

    def state(self) -> Tensors:
        return {name: self.fetch(name, tensor) for name, tensor in self.states.items()}

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        held = {
            name: self._host[name](array) if name in self._host else self.place(name, array)
            for name, array in self.graph.unpack(inputs).items()
        }
        self._slots[slot] = [held[name] for name in self.operands], [held[name] for name in self.cotangents]

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        operands, cotangents = self._slots[slot]
        self._found = self.compute([*operands, *self._supplied], cotangents)

    def supply_masks(self, masks: Tensors) -> None:
        self._supplied = [self.place(name, masks[name]) if masks else None for name in self.masks]

    def draw_masks(self, slot: int) -> Tensors:
        """Derive the masks from the operand and the result of each dropout."""
        self.step(slot, 0.0, 1)
        found = {value: self._found[i] for i, value in enumerate(self.graph.outputs.values())}
        operands = dict(zip(self.operands, self._slots[slot][0], strict=True))
        masks = {}
        for op in (node for node in self.graph.nodes if node.op == "dropout"):
            name, result = str(op.inputs[0]), str(op.outputs[0])
            x, y = self.fetch(name, operands[name]), self.fetch(result, found[result])
            # An element that was 0 before is 0 after, whether it was kept or not.
            masks[str(op.inputs[1])] = np.where(x == 0, 255, y != 0).astype(np.uint8)
        return masks

    def results(self) -> Tensors:
        outputs = list(self.graph.outputs.items())
        found = {name: self.fetch(value, self._found[i]) for i, (name, value) in enumerate(outputs)}
        for i, name in enumerate(self.differentiated, len(outputs)):
            found[f"gradient/{name}"] = self.fetch(name, self._found[i])
        return found
