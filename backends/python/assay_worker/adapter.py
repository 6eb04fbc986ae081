"""The contract of a Python backend: it takes a whole program and returns an object that runs steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .errors import Unsupported
from .exchange import Exchange
from .libraries import Library
from .loop import Loop
from .program import Program
from .samples import Samples
from .tensors import Tensors


@dataclass(frozen=True)
class Info:
    """The backend's name and version, its libraries, and its observed settings."""

    name: str
    version: str
    libraries: list[Library] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """request.json: the cell and how to run it."""

    folder: Path
    request: dict[str, Any]

    @property
    def task(self) -> str:
        return str(self.request.get("task", "train"))

    @property
    def mode(self) -> str:
        return str(self.request["mode"])

    @property
    def device(self) -> str:
        return str(self.request.get("device", "cpu"))

    @property
    def precision(self) -> str:
        return str(self.request.get("precision", "fp32"))

    @property
    def layout(self) -> str:
        return str(self.request.get("layout", "native"))

    @property
    def threads(self) -> int:
        return int(self.request.get("threads", 1))

    @property
    def deterministic(self) -> bool:
        return bool(self.request.get("deterministic", False))

    @property
    def running_accuracy(self) -> bool:
        """Whether each step also counts the accuracy of its batch, as loops of users do that print it."""
        return bool(self.request.get("running_accuracy", False))

    @property
    def recompute(self) -> str:
        """The activations that the backward pass computes again: "none", "mirror" or "sqrt"."""
        return str(self.request.get("recompute", "none"))

    @property
    def memory_fraction(self) -> float | None:
        """Share of the device's memory that the backend may use; None: no limit was requested."""
        return self.request.get("memory_fraction")

    @property
    def memory_cap_bytes(self) -> int | None:
        return self.request.get("memory_cap_bytes")

    @property
    def loader(self) -> str:
        return str(self.request.get("loader", {}).get("kind", "resident"))

    @property
    def loader_workers(self) -> int:
        return int(self.request.get("loader", {}).get("workers", 0))

    @property
    def seed(self) -> int:
        return int(self.request.get("seed", 1))

    @property
    def rank(self) -> int:
        """The number of this worker among those that train one model together, from 0."""
        return int(self.request.get("rank", 0))

    @property
    def world(self) -> int:
        """The number of these workers."""
        return int(self.request.get("world", 1))

    @property
    def rendezvous(self) -> tuple[str, int]:
        """The address and port where they find each other; rank 0 may listen there."""
        host, _, port = str(self.request["rendezvous"]).rpartition(":")
        return host, int(port)

    @property
    def is_timed(self) -> bool:
        return bool(self.request.get("clock"))


class Adapter(ABC):
    """One compiled program with its memory and its state. Used from one thread.

    Arrays are float32 in the contract's layout; inputs that are tokens, and labels, are int32. Raise
    Unsupported for "no", MemoryError if memory runs out, any other exception for a failure.
    """

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

    @abstractmethod
    def __init__(self, program: Program, cell: Cell) -> None:
        """Compile."""

    @abstractmethod
    def set_state(self, tensors: Tensors) -> None:
        """Set parameters, running statistics and moments; reset those that are not named."""

    @abstractmethod
    def state(self) -> Tensors:
        """Parameters, running statistics and moments ("<parameter>.<moment>")."""

    @abstractmethod
    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Keep a copy of a batch as number `slot`, in any layout that step() reads.

        For a single op, `inputs` holds all operands, which Graph.unpack() separates; `labels` are unused.
        """

    @abstractmethod
    def step(self, slot: int, learning_rate: float, step: int) -> None:
        """Enqueue one training step, or one inference, on that batch; it may return before it is done."""

    @property
    def takes_blocks(self) -> bool:
        """Whether block() is called in place of step() for the steps of a block on resident batches."""
        return False

    def block(self, first_slot: int, rows: Sequence[tuple[float, int]]) -> None:
        """Enqueue the training steps of a block, on the slots from the first on in turn.

        A row has the learning rate and the number of a step.
        """
        raise NotImplementedError("step() is called instead")

    def prefill(self, slot: int) -> None:
        """Task decode: begin the samples of a staged batch again, and enqueue their prompts.

        Fills the caches; no earlier token is seen any more. Leaves "logits" (B, 1, classes) of the last
        token of each prompt.
        """
        raise Unsupported("[decode] this backend generates no tokens")

    def next_token(self, slot: int) -> None:
        """Task decode: enqueue the next token of each sample, which is in the batch; leaves its "logits"."""
        raise Unsupported("[decode] this backend generates no tokens")

    @abstractmethod
    def synchronize(self) -> None:
        """Return when every enqueued step is done."""

    @abstractmethod
    def loss(self) -> float:
        """Return the mean loss of the last step; synchronises."""

    def running_accuracy(self) -> float | None:
        """Return the accuracy of the batches since the last call, or set_state(); None: it is not counted.

        Only asked if the cell counts it: see Cell.running_accuracy.
        """
        return None

    @abstractmethod
    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        """Return inference-mode logits (B, classes) for the present state, without changing it.

        (B, T, classes) if every position of a sample has a label.
        """

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

    def results(self) -> Tensors:
        """Return the results of the last step; synchronises.

        For a network in task infer or decode: "logits". For a single op: the graph's outputs by name, and in
        task train "gradient/<input>" for each name in program.differentiated.
        """
        raise Unsupported("[infer] this backend does not return the results of an inference")

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

    def close(self) -> None:  # noqa: B027 - most adapters start no processes
        """End the processes that the own loader started; called after the steps, and before the end."""

    def memory(self) -> dict[str, int]:
        """Return bytes by name."""
        return {}

    def settings(self) -> dict[str, str]:
        """Return the settings observed after compiling and running."""
        return {}
