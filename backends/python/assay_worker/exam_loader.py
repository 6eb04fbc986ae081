"""The exam of a framework's own loader: docs/reference/protocol.md, "The exam"."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .adapter import Adapter
from .program import Program
from .samples import Samples
from .tensors import Tensors, read_tensors

MIN_STEPS = 10


def loader_losses(adapter: Adapter, program: Program, asked: dict[str, float], cell_folder: Path) -> Tensors:
    """Return losses on batches of the framework's own loader, and on staged batches of the same samples.

    A mix-up of labels shows only if the network has learned something, so it first trains on staged
    batches. Both losses are means of a step with learning rate 0, which changes no parameter.
    """
    samples = Samples(cell_folder)
    schedule = np.load(cell_folder / "schedule.npy")
    random = np.random.default_rng(len(samples))

    def stage() -> None:
        rows = [samples[row] for row in random.integers(len(samples), size=program.batch).tolist()]
        inputs, labels = (np.stack(column) for column in zip(*rows, strict=True))
        adapter.stage(0, inputs, labels.astype(np.int32))

    adapter.set_state(read_tensors(cell_folder / "parameters.safetensors"))
    begin, number = time.monotonic(), 0
    for rate, count in schedule[: int(asked["steps"])].tolist():
        stage()
        number = int(count)
        adapter.step(0, rate, number)
        adapter.synchronize()
        if number >= MIN_STEPS and time.monotonic() - begin > asked["seconds"]:
            break

    def loss() -> float:
        adapter.step(0, 0.0, number + 1)
        adapter.synchronize()
        return adapter.loss()

    given, losses = _batches(adapter, samples), np.zeros((2, int(asked["batches"])))
    for i in range(losses.shape[1]):
        adapter.take(next(given))
        losses[0, i] = loss()
        stage()
        losses[1, i] = loss()
    adapter.close()
    return {"loader/losses": losses}


def _batches(adapter: Adapter, samples: Samples) -> Iterator[Any]:
    samples.start(1)
    while True:
        yield from adapter.loader(samples)
