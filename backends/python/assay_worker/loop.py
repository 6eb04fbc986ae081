"""The blocks and steps of a run, for the worker's own loop and for a framework's own loop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

import numpy as np

from .batch import DONE, EVALUATE, Block, Supply

Progress = Callable[[int, int], None]
TELL_SECONDS = 0.2  # between two progress messages


class Trained(Protocol):
    """The part of an adapter that the loop calls between blocks."""

    def evaluate(self, inputs: np.ndarray) -> np.ndarray: ...

    def synchronize(self) -> None: ...

    def loss(self) -> float: ...

    def running_accuracy(self) -> float | None: ...


class Loop:
    """The blocks of a run, one after the other, with an evaluation between training blocks."""

    def __init__(self, adapter: Trained, supply: Supply, progress: Progress, tokens: int = 0) -> None:
        self._adapter, self.supply = adapter, supply
        self.tokens = tokens  # task decode: those of a sample after its prompt
        self._progress = progress
        self._told = 0.0
        self._rows: list[tuple[float, int]] = []
        self._at = 0
        self.epoch = 0  # of the block; 0: the cell counts steps
        self.last_step = 0  # the number of the last step that ran

    def next_block(self) -> Block | None:
        """Return the next block of steps and start its clock; None: there are no more blocks."""
        while (block := self._block()).kind == EVALUATE:
            for _ in range(block.steps):
                self.supply.next_batch()
                self.supply.add_logits(self._adapter.evaluate(self.supply.inputs))
            self.supply.end_block(math.nan)
        if block.kind == DONE:
            self._progress(*self.supply.progress())  # the conductor stamps the end of the last block
            return None
        return block

    def rows(self, block: Block) -> list[tuple[float, int]]:
        """Return the learning rate and number of each step of a block."""
        first, end, schedule = block.first_step, block.first_step + block.steps, self.supply.schedule
        rows = schedule[first:end]
        if len(rows) != block.steps:
            raise RuntimeError(f"[train] steps {first} to {end}: the schedule has {len(schedule)} rows")
        self.last_step = rows[-1][1] if rows else self.last_step
        return rows

    def begin_block(self) -> list[tuple[float, int]] | None:
        """For a framework's own loop: start the next block; return its rows(); None: no steps are left."""
        block = self.next_block()
        if block is None:
            return None
        self._rows, self._at, self.epoch = self.rows(block), 0, block.epoch
        return self._rows

    def end_block(self) -> None:
        """Call after all steps of the block have been enqueued."""
        self._at = len(self._rows)
        self.supply.enqueued()
        self._adapter.synchronize()
        self.supply.end_block(self._adapter.loss())
        if (accuracy := self._adapter.running_accuracy()) is not None:
            self.supply.running_accuracy(accuracy)

    def begin_step(self) -> tuple[float, int] | None:
        """For a framework's own loop: return the arguments of the next step; None: no steps are left."""
        if self._at == len(self._rows) and self.begin_block() is None:
            return None
        return self._rows[self._at]

    @property
    def steps(self) -> int:
        """The number of steps of the block."""
        return len(self._rows)

    @property
    def last_of_block(self) -> bool:
        return self._at + 1 == len(self._rows)

    def end_step(self) -> None:
        """Call after the step of begin_step() has been enqueued; reads the loss at the end of a block."""
        self._at += 1
        if self._at == len(self._rows):
            self.end_block()

    def _block(self) -> Block:
        if (now := time.monotonic()) - self._told > TELL_SECONDS:
            self._told = now
            self._progress(*self.supply.progress())
        return self.supply.next_block()
