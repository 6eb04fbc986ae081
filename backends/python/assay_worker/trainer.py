"""The loop of every Python worker: it runs the blocks of the batch library until there are no more."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from .adapter import Adapter, NetworkAdapter, TrainingAdapter
from .batch import Block, Supply
from .loop import Loop, Progress
from .samples import Samples


def stage_resident(adapter: Adapter, supply: Supply) -> int:
    """Stage every resident batch of the cell in its slot; return their number."""
    resident = int(supply.layout.resident_batches)
    for slot in range(resident):
        supply.read_resident(slot)
        adapter.stage(slot, supply.inputs, supply.labels)
    return resident


def run(
    adapter: Adapter, supply: Supply, task: str, progress: Progress, op: bool = False, tokens: int = 0
) -> int:
    """Train; return the number of the last step. Calls `progress` between blocks. Keeps the last state.

    tokens: for task decode, those of a sample after its prompt.
    """
    resident = stage_resident(adapter, supply)
    trained = cast(TrainingAdapter, adapter)  # where nothing is trained, a loop asks it nothing
    loop = Loop(trained, supply, progress, tokens)
    if task == "train" and not op and trained.own_loop:
        trained.train(loop, None)
        return loop.last_step
    steps: Any = _op if op else STEPS[task]
    while (block := loop.next_block()) is not None:
        steps(adapter, loop, block, resident)
    return loop.last_step


def run_native(adapter: TrainingAdapter, supply: Supply, samples: Samples, progress: Progress) -> int:
    """Train on the batches of the framework's own loader, in its own order."""
    loop, epoch = Loop(adapter, supply, progress), 0
    given: Iterator[Any] = iter(())
    if adapter.own_loop:
        adapter.train(loop, samples)
        return loop.last_step
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
        loop.end_block()
    return loop.last_step


def _pass(adapter: TrainingAdapter, samples: Samples, epoch: int) -> Iterator[Any]:
    samples.start(epoch)
    return iter(adapter.loader(samples))


def _train(adapter: TrainingAdapter, loop: Loop, block: Block, resident: int) -> None:
    supply, rows = loop.supply, loop.rows(block)
    step = adapter.step
    if resident and adapter.takes_blocks:
        adapter.block(block.first_step % resident, rows)
    elif resident:
        slot = block.first_step % resident
        for learning_rate, number in rows:
            step(slot, learning_rate, number)
            slot = slot + 1 if slot + 1 < resident else 0
    else:
        for learning_rate, number in rows:
            supply.next_batch()
            adapter.stage(0, supply.inputs, supply.labels)
            step(0, learning_rate, number)
    loop.end_block()


def _infer(adapter: Adapter, loop: Loop, block: Block, resident: int) -> None:
    supply = loop.supply
    # Looked up once: in a step, each lookup would be time of ours.
    step, synchronize, lap = adapter.step, adapter.synchronize, supply.lap
    slot = block.first_step % resident if resident else 0
    for number in range(block.first_step + 1, block.first_step + block.steps + 1):
        if not resident:
            supply.next_batch()
            adapter.stage(0, supply.inputs, supply.labels)
        step(slot, 0.0, number)
        synchronize()
        if lap():
            supply.read_results(adapter.results)
        if resident:
            slot = slot + 1 if slot + 1 < resident else 0
    _end_block(adapter, supply)


def _decode(adapter: NetworkAdapter, loop: Loop, block: Block, resident: int) -> None:
    """A step is a generation: the prompts of a batch, and then its other tokens, one after the other."""
    supply = loop.supply
    next_token, synchronize, lap = adapter.next_token, adapter.synchronize, supply.lap  # as in _infer
    for row in range(block.first_step, block.first_step + block.steps):
        slot = 0
        if resident:
            slot = row % resident
        else:
            supply.next_batch()
            adapter.stage(0, supply.inputs, supply.labels)
        adapter.prefill(slot)
        synchronize()
        supply.lap_prefill()
        for _ in range(loop.tokens):
            next_token(slot)
            synchronize()
            if lap():
                supply.read_results(adapter.results)
    _end_block(adapter, supply)


STEPS = {"train": _train, "infer": _infer, "decode": _decode}


def _op(adapter: Adapter, loop: Loop, block: Block, resident: int) -> None:
    step = adapter.step
    if resident == 1:
        for row in range(block.first_step, block.first_step + block.steps):
            step(0, 0.0, row + 1)
    else:
        for row in range(block.first_step, block.first_step + block.steps):
            step(row % resident, 0.0, row + 1)
    loop.supply.enqueued()
    adapter.synchronize()
    _end_block(adapter, loop.supply)


def _end_block(adapter: Adapter, supply: Supply) -> None:
    if supply.end_block(math.nan):
        supply.read_results(adapter.results)
