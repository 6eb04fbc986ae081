"""The contract of a Python backend: whole program in, something that steps out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .errors import Unsupported
from .libraries import Library
from .loop import Loop
from .program import Program
from .samples import Samples
from .tensors import Tensors


@dataclass(frozen=True)
class Info:
    """Who the backend is, and what was observed of its settings."""

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
    def memory_fraction(self) -> float | None:
        """Share of the device's memory that may be taken; None: not asked."""
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
    def counts_steps(self) -> bool:
        return bool(self.request.get("clock", {}).get("kind") == "steps")


class Adapter(ABC):
    """One compiled program with its memory and its state. Used from one thread.

    Arrays are float32 in the contract's layout, inputs int32 where they are tokens; labels are int32. Raise
    Unsupported for "no", MemoryError when there is none left, anything else for a failure.
    """

    @classmethod
    @abstractmethod
    def info(cls, cell: Cell) -> Info:
        """Say who this is, before anything is compiled."""

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        """Say which adapter runs this program: for single ops a backend has one of its own."""
        if program.is_op:
            raise Unsupported(f"[{program.training.name}] this backend does not run single ops")
        return cls

    @abstractmethod
    def __init__(self, program: Program, cell: Cell) -> None:
        """Compile."""

    @abstractmethod
    def set_state(self, tensors: Tensors) -> None:
        """Set parameters, running statistics and moments; those not named start anew."""

    @abstractmethod
    def state(self) -> Tensors:
        """Parameters, running statistics and moments ("<parameter>.<moment>")."""

    @abstractmethod
    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        """Keep a copy of a batch as number `slot`, in whatever layout step() reads.

        Of a single op `inputs` holds all operands: Graph.unpack() takes them apart; `labels` mean nothing.
        """

    @abstractmethod
    def step(self, slot: int, learning_rate: float, step: int) -> None:
        """Enqueue one training step, or one inference, on that batch; it may return before it is done."""

    @abstractmethod
    def synchronize(self) -> None:
        """Return when every enqueued step is done."""

    @abstractmethod
    def loss(self) -> float:
        """Mean loss of the last step; synchronises."""

    @abstractmethod
    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        """Inference-mode logits (B, classes) with the present state, which stays as it is."""

    def supply_masks(self, masks: Tensors) -> None:
        """Dropout takes these (u8, 1 kept, by name) from the next step on; empty: it draws again."""
        if masks:
            raise Unsupported("[dropout] this backend takes no masks")

    def seed_masks(self, seed: int) -> None:
        """Let what dropout draws begin again: after the same seed, the same steps draw the same masks.

        Raise Unsupported where what is timed cannot: then only the shares of what it keeps are judged.
        """
        raise Unsupported("[dropout] this backend cannot let its masks begin again")

    def draw_masks(self, slot: int) -> Tensors:
        """Which elements a training step on a staged batch would keep now; the state may change.

        u8 by the mask's name: 1 kept, 0 dropped, 255 where it cannot be told. The generator moves on as in a
        step, so that after seed_masks() the n-th call gives what the n-th step draws.
        """
        raise Unsupported("[dropout] this backend does not tell its masks")

    def results(self) -> Tensors:
        """What the last step computed; synchronises.

        Of a network in task infer its "logits". Of a single op by the names of the graph's outputs, and for
        task train "gradient/<input>" for each of program.differentiated.
        """
        raise Unsupported("[infer] this backend does not give what an inference computed")

    @property
    def own_loop(self) -> bool:
        """Whether it trains by train(), in a loop of the framework's own."""
        return False

    def train(self, loop: Loop, samples: Samples | None) -> None:
        """Run all steps, each between loop.begin_step() and loop.end_step().

        On staged batches, on those of the batch library, or where there are samples by its own loader.
        """
        raise NotImplementedError("step() is called instead")

    def loader(self, samples: Samples) -> Iterable[Any]:
        """Give one pass over the samples in whole batches by the framework's own loader, in its own order.

        Called in each epoch with the same samples: build the loader in the first, as users do.
        """
        raise Unsupported("[native] this backend has no loader of its own")

    def take(self, batch: Any) -> None:
        """Let what the own loader gave be slot 0."""
        raise Unsupported("[native] this backend has no loader of its own")

    def close(self) -> None:  # noqa: B027 - most adapters start no processes
        """End the processes that the own loader started; called after the steps, and before the end."""

    def memory(self) -> dict[str, int]:
        """Bytes by name."""
        return {}

    def settings(self) -> dict[str, str]:
        """What was observed after compiling and running."""
        return {}
