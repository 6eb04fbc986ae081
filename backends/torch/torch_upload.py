"""Batches on their way to a GPU, as users send them: from pinned memory, without waiting for the copy."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


class Upload:
    """Copies host arrays into `target`, which is on a GPU, in the order of the current stream."""

    def __init__(self, target: Tensor) -> None:
        self._target = target
        self._pinned = torch.empty(target.shape, dtype=target.dtype, pin_memory=True)
        self._copied = torch.cuda.Event()

    def send(self, array: np.ndarray) -> None:
        """Return when `array` may be reused."""
        self._copied.synchronize()  # the last batch has left the pinned memory
        self._pinned.copy_(torch.from_numpy(array))
        self._target.copy_(self._pinned, non_blocking=True)
        self._copied.record()
