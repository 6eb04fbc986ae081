"""How the exam gives an adapter its batches: from memory that does not keep them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .adapter import Adapter

ALIGNMENT = 4096  # a framework may keep a view of aligned memory, and copy any other

Batch = tuple[np.ndarray, np.ndarray]


class StagingBuffer:
    """Stages batches from one buffer, as a run does. Afterwards the buffer has other numbers.

    An adapter that keeps a view instead of a copy then computes with these.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._arrays: list[np.ndarray] = []

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        given = (inputs, labels)
        if [(a.shape, a.dtype) for a in self._arrays] != [(a.shape, a.dtype) for a in given]:
            self._arrays = [_aligned(array) for array in given]
        for array, values in zip(self._arrays, given, strict=True):
            array[...] = values
        self._adapter.stage(slot, *self._arrays)
        for array in self._arrays:
            # The largest token or label: one that is too large could end the process.
            array[...] = np.nan if array.dtype == np.float32 else array.max(initial=0)


class Staged:
    """The exam's batches in an adapter's slots: a batch is staged if the slot has another one."""

    def __init__(self, adapter: Adapter, slots: list[int], batch: Callable[[int], Batch]) -> None:
        """slots: of each batch; batch: returns the rows of one."""
        self._buffer, self._slots, self._batch = StagingBuffer(adapter), slots, batch
        self._held: dict[int, int] = {}

    def slot_of(self, batch: int) -> int:
        slot = self._slots[batch]
        if self._held.get(slot) != batch:
            self._buffer.stage(slot, *self._batch(batch))
            self._held[slot] = batch
        return slot

    def stage_all(self) -> None:
        """Stage as many batches as there are slots, so that no step has to wait for staging."""
        for batch in range(len(self._slots)):
            self.slot_of(batch)


def _aligned(like: np.ndarray) -> np.ndarray:
    memory = np.empty(like.nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    return memory[begin : begin + like.nbytes].view(like.dtype).reshape(like.shape)
