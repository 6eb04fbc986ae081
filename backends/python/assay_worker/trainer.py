"""The loop of every Python worker: it does what the batch library says until that says that all is done."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from .adapter import Adapter
from .batch import DONE, EVALUATE, Block, Session


def run(
    adapter: Adapter, session: Session, task: str, progress: Callable[[int, int], None], op: bool = False
) -> None:
    """Leave the state as the last step left it; call `progress` between blocks, now and then."""
    resident = session.layout.resident_batches
    for slot in range(resident):
        session.read_resident(slot)
        adapter.stage(slot, session.inputs, session.labels)
    steps = _op if op else _infer if task == "infer" else _train
    told = 0.0
    while (block := session.next_block()).kind != DONE:
        if block.kind == EVALUATE:
            _evaluate(adapter, session, block.steps)
        else:
            steps(adapter, session, block, resident)
        if (now := time.monotonic()) - told > 0.2:
            told = now
            progress(*session.progress())


def _train(adapter: Adapter, session: Session, block: Block, resident: int) -> None:
    first, count = block.first_step, block.steps
    rows = session.schedule[first : first + count]
    if len(rows) != count:
        raise RuntimeError(
            f"[train] steps {first} to {first + count}: the schedule has {len(session.schedule)} rows"
        )
    step = adapter.step
    if resident:
        slot = first % resident
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


def _infer(adapter: Adapter, session: Session, block: Block, resident: int) -> None:
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


def _op(adapter: Adapter, session: Session, block: Block, resident: int) -> None:
    step = adapter.step
    if resident == 1:
        for row in range(block.first_step, block.first_step + block.steps):
            step(0, 0.0, row + 1)
    else:
        for row in range(block.first_step, block.first_step + block.steps):
            step(row % resident, 0.0, row + 1)
    adapter.synchronize()
    session.end_block(math.nan)


def _evaluate(adapter: Adapter, session: Session, batches: int) -> None:
    for _ in range(batches):
        session.next_batch()
        session.add_logits(adapter.evaluate(session.inputs))
    session.end_block(math.nan)
