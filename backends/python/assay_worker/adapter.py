"""The contract of a Python backend: it takes a whole program and returns an object that runs steps.

A backend that trains is a TrainingAdapter, one that only infers an InferenceAdapter; the op_adapter module
has single ops. All are one compiled program with its memory and its state, used from one thread.

Arrays are float32 in the contract's layout; inputs that are tokens, and labels, are int32. Raise Unsupported
for "no", MemoryError if memory runs out, any other exception for a failure.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .cell import Cell, Info
from .device_times import DeviceTimes
from .errors import Unsupported
from .exchange import Exchange
from .loop import Loop
from .program import Program
from .samples import Samples
from .tensors import Tensors


class Adapter(ABC):
    """The methods that a compiled program has for every task."""

    @abstractmethod
    def __init__(self, program: Program, cell: Cell) -> None:
        """Compile."""

    @abstractmethod
    def set_state(self, tensors: Tensors) -> None:
        """Set parameters, running statistics and moments; reset those that are not named."""

    @abstractmethod
    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Keep a copy of a batch as number `slot`, in any layout that step() reads.

        For a single op, `inputs` holds all operands, which Graph.unpack() separates; `labels` are unused.
        """

    @abstractmethod
    def step(self, slot: int, learning_rate: float, step: int) -> None:
        """Enqueue one training step, or one inference, on that batch; it may return before it is done."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when every enqueued step is done."""

    def results(self) -> Tensors:
        """Return the results of the last step; synchronises.

        For a network in task infer or decode: "logits". For a single op: the graph's outputs by name, and in
        task train "gradient/<input>" for each name in program.differentiated.
        """
        raise Unsupported("[infer] this backend does not return the results of an inference")

    def supply_masks(self, masks: Tensors) -> None:
        """Use these masks (u8, 1 kept, by name) for dropout from the next step on; empty: draw again."""
        if masks:
            raise Unsupported("[dropout] this backend takes no masks")

    def seed_masks(self, seed: int) -> None:
        """Restart the generator of dropout: after the same seed, the same steps draw the same masks.

        Raise Unsupported if the timed program cannot: then only the shares that it keeps are judged.
        """
        raise Unsupported("[dropout] this backend cannot restart the generator of its masks")

    def draw_masks(self, slot: int) -> Tensors:
        """Return which elements a training step on a staged batch would keep now; the state may change.

        u8 by the mask's name: 1 kept, 0 dropped, 255 unknown. The generator moves on as in a step, so that
        after seed_masks() the n-th call returns the masks of the n-th step.
        """
        raise Unsupported("[dropout] this backend does not report its masks")

    def device_times(self) -> DeviceTimes:
        """Of a single op, after its timed steps: what they take without the host's launches.

        The steps are over the staged operands in turn, and leave other results.
        """
        raise Unsupported("[time_device] this backend does not time its device by itself")

    def close(self) -> None:  # noqa: B027 - most adapters start no processes
        """End the processes that the own loader started; called after the steps, and before the end."""

    def memory(self) -> dict[str, int]:
        """Return bytes by name."""
        return {}

    def settings(self) -> dict[str, str]:
        """Return the settings observed after compiling and running."""
        return {}


class NetworkAdapter(Adapter):
    """A network: the class of it also describes the backend."""

    @classmethod
    @abstractmethod
    def info(cls, cell: Cell) -> Info:
        """Describe the backend, before anything is compiled."""

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        """Return the adapter class for this program: a backend has another one for single ops."""
        if program.is_op:
            raise Unsupported(f"[{program.name}] this backend does not run single ops")
        return cls

    def prefill(self, slot: int) -> None:
        """Task decode: begin the samples of a staged batch again, and enqueue their prompts.

        Fills the caches; no earlier token is seen any more. Leaves "logits" (B, 1, classes) of the last
        token of each prompt.
        """
        raise Unsupported("[decode] this backend generates no tokens")

    def next_token(self, slot: int) -> None:
        """Task decode: enqueue the next token of each sample, which is in the batch; leaves its "logits"."""
        raise Unsupported("[decode] this backend generates no tokens")


class InferenceAdapter(NetworkAdapter):
    """A network on a runtime that only infers: a subclass compiles, takes the weights, and defines infer().

    Batches are kept in host memory. To keep them elsewhere, or to enqueue, override stage(), step(),
    synchronize() and results(), instead of infer().
    """

    def __init__(self, program: Program, cell: Cell) -> None:
        """Compile. A subclass calls this."""
        self.program, self.cell = program, cell
        self._staged: dict[int, Tensors] = {}
        self._results: Tensors = {}

    def infer(self, inputs: Tensors) -> Tensors:
        """Return the complete outputs of the inference graph by name, for its inputs by name."""
        raise NotImplementedError("a subclass defines infer(), or step() and results()")

    def inputs_of(self, inputs: np.ndarray) -> Tensors:
        """Return a copy of a batch as the inputs of the graph by name."""
        graph = self.program.inference
        if self.program.packs_inputs:
            return graph.unpack(inputs.copy(), self.program.batch)
        return {graph.with_role("input")[0].name: inputs.copy()}

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        self._staged[slot] = self.inputs_of(inputs)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        self._results = self.infer(self._staged[slot])

    def synchronize(self) -> None:
        """infer() has ended: nothing is enqueued."""

    def results(self) -> Tensors:
        return self._results


class TrainingAdapter(NetworkAdapter):
    """A network that is trained, or inferred, by a framework."""

    @abstractmethod
    def state(self) -> Tensors:
        """Parameters, running statistics and moments ("<parameter>.<moment>")."""

    @abstractmethod
    def loss(self) -> float:
        """Return the mean loss of the last step; synchronises."""

    @abstractmethod
    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        """Return inference-mode logits (B, classes) for the present state, without changing it.

        (B, T, classes) if every position of a sample has a label.
        """

    @property
    def takes_blocks(self) -> bool:
        """Whether block() is called in place of step() for the steps of a block on resident batches."""
        return False

    def block(self, first_slot: int, rows: Sequence[tuple[float, int]]) -> None:
        """Enqueue the training steps of a block, on the slots from the first on in turn.

        A row has the learning rate and the number of a step.
        """
        raise NotImplementedError("step() is called instead")

    def running_accuracy(self) -> float | None:
        """Return the accuracy of the batches since the last call, or set_state(); None: it is not counted.

        Only asked if the cell counts it: see Cell.running_accuracy.
        """
        return None

    def agree(self, value: int) -> int:
        """Return rank 0's value on every rank, once all of them have called this.

        Only for cells of several ranks: they use it to run the same number of steps. Never called in a timed
        block.
        """
        raise Unsupported("[ranks] this backend trains alone")

    def exchange(self) -> Exchange:
        """Return the exchange of gradients between several ranks, apart from the rest of a step.

        Called after the timed steps and the exam. step() must stay the step that was timed.
        """
        raise Unsupported("[exchange] this backend cannot leave the exchange out of a step")

    @property
    def own_loop(self) -> bool:
        """Whether train() runs the steps, in the framework's own loop."""
        return False

    def train(self, loop: Loop, samples: Samples | None) -> None:
        """Run all steps, each between loop.begin_step() and loop.end_step().

        The batches are the staged ones, those of the batch library, or, if samples are given, those of the
        framework's own loader.
        """
        raise NotImplementedError("step() is called instead")

    def loader(self, samples: Samples) -> Iterable[Any]:
        """Return one pass over the samples, in whole batches, by the framework's own loader in its own order.

        Called in each epoch with the same samples: build the loader in the first epoch, as users do.
        """
        raise Unsupported("[native] this backend has no loader of its own")

    def take(self, batch: Any) -> None:
        """Make a batch of the own loader slot 0."""
        raise Unsupported("[native] this backend has no loader of its own")

    def taken(self) -> tuple[np.ndarray, np.ndarray]:
        """Return inputs and labels in slot 0, in the contract's layout, for the exam of the own loader."""
        raise Unsupported("[native] this backend does not report the batches of its own loader")
