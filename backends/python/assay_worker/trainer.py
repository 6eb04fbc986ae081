"""The loop of every Python worker: it does what the batch library says until that says that all is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from .adapter import Adapter
from .batch import DONE, EVALUATE, Block, Session
from .samples import Samples

Progress = Callable[[int, int], None]
TELL_SECONDS = 0.2  # between two progress messages


class Loop:
    """The blocks of a run one after the other; between those that train it evaluates."""

    def __init__(self, adapter: Adapter, session: Session, progress: Progress) -> None:
        self.adapter, self.session = adapter, session
        self._progress = progress
        self._told = 0.0
        self._rows: list[tuple[float, int]] = []
        self._at = 0

    def next_block(self) -> Block | None:
        """Give the next block of steps, whose clock runs from now; None: all is done."""
        while (block := self._block()).kind == EVALUATE:
            for _ in range(block.steps):
                self.session.next_batch()
                self.session.add_logits(self.adapter.evaluate(self.session.inputs))
            self.session.end_block(math.nan)
        return None if block.kind == DONE else block

    def rows(self, block: Block) -> list[tuple[float, int]]:
        """Learning rate and number of each step of a block."""
        first, end, schedule = block.first_step, block.first_step + block.steps, self.session.schedule
        rows = schedule[first:end]
        if len(rows) != block.steps:
            raise RuntimeError(f"[train] steps {first} to {end}: the schedule has {len(schedule)} rows")
        return rows

    def begin_step(self) -> tuple[float, int] | None:
        """For a framework with a loop of its own: what the next step is trained with; None: none is left."""
        if self._at == len(self._rows):
            block = self.next_block()
            if block is None:
                return None
            self._rows, self._at = self.rows(block), 0
        return self._rows[self._at]

    @property
    def last_of_block(self) -> bool:
        return self._at + 1 == len(self._rows)

    def end_step(self) -> None:
        """The step that begin_step() told has been enqueued; at the end of a block the loss is read."""
        self._at += 1
        if self._at == len(self._rows):
            self.adapter.synchronize()
            self.session.end_block(self.adapter.loss())

    def _block(self) -> Block:
        if (now := time.monotonic()) - self._told > TELL_SECONDS:
            self._told = now
            self._progress(*self.session.progress())
        return self.session.next_block()


def run(adapter: Adapter, session: Session, task: str, progress: Progress, op: bool = False) -> None:
    """Leave the state as the last step left it; call `progress` between blocks, now and then."""
    resident = session.layout.resident_batches
    for slot in range(resident):
        session.read_resident(slot)
        adapter.stage(slot, session.inputs, session.labels)
    loop = Loop(adapter, session, progress)
    if task == "train" and not op and adapter.own_loop:
        adapter.train(loop, None)
        return
    steps = _op if op else _infer if task == "infer" else _train
    while (block := loop.next_block()) is not None:
        steps(loop, block, resident)


def run_native(adapter: Adapter, session: Session, samples: Samples, progress: Progress) -> None:
    """Train on what the framework's own loader gives, in its own order."""
    loop, given, epoch = Loop(adapter, session, progress), iter(()), 0
    if adapter.own_loop:
        adapter.train(loop, samples)
        return
    while (block := loop.next_block()) is not None:
        if block.epoch != epoch:
            epoch, given = block.epoch, iter(())
        for learning_rate, number in loop.rows(block):
            batch = next(given, None)
            if batch is None:
                given = _pass(adapter, samples, max(epoch, 1))
                batch = next(given)
            adapter.take(batch)
            adapter.step(0, learning_rate, number)
        adapter.synchronize()
        session.end_block(adapter.loss())


def _pass(adapter: Adapter, samples: Samples, epoch: int) -> Iterator[Any]:
    samples.start(epoch)
    return iter(adapter.loader(samples))


def _train(loop: Loop, block: Block, resident: int) -> None:
    adapter, session, rows = loop.adapter, loop.session, loop.rows(block)
    step = adapter.step
    if resident:
        slot = block.first_step % resident
        for learning_rate, number in rows:
            step(slot, learning_rate, number)
            slot = slot + 1 if slot + 1 < resident else 0
    else:
        for learning_rate, number in rows:
            session.next_batch()
            adapter.stage(0, session.inputs, session.labels)
            step(0, learning_rate, number)
    adapter.synchronize()
    session.end_block(adapter.loss())


def _infer(loop: Loop, block: Block, resident: int) -> None:
    adapter, session = loop.adapter, loop.session
    for row in range(block.first_step, block.first_step + block.steps):
        slot = 0
        if resident:
            slot = row % resident
        else:
            session.next_batch()
            adapter.stage(0, session.inputs, session.labels)
        adapter.step(slot, 0.0, row + 1)
        adapter.synchronize()
        session.lap()
    session.end_block(math.nan)


def _op(loop: Loop, block: Block, resident: int) -> None:
    step = loop.adapter.step
    if resident == 1:
        for row in range(block.first_step, block.first_step + block.steps):
            step(0, 0.0, row + 1)
    else:
        for row in range(block.first_step, block.first_step + block.steps):
            step(row % resident, 0.0, row + 1)
    loop.adapter.synchronize()
    loop.session.end_block(math.nan)
