"""Mode `cudagraph`: a whole training step recorded once as a CUDA graph and then replayed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

WARM_UP_STEPS = 3  # as in PyTorch's notes on CUDA graphs


class CapturedStep:
    """Its inputs and outputs keep their addresses; a batch is copied to where the graph reads it."""

    def __init__(self, step: Callable[[Tensor, Tensor], Tensor], inputs: Tensor, labels: Tensor) -> None:
        """Run `step`, which returns the loss, a few times, which changes the state; then record it."""
        self._inputs, self._labels = inputs.clone(), labels.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_STEPS):
                step(self._inputs, self._labels)
        torch.cuda.current_stream().wait_stream(aside)
        self._graph = torch.cuda.CUDAGraph()
        # Other threads, such as the one of a loader that pins memory, may call CUDA meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._loss = step(self._inputs, self._labels)

    def replay(self, inputs: Tensor, labels: Tensor) -> Tensor:
        self._inputs.copy_(inputs)
        self._labels.copy_(labels)
        self._graph.replay()
        return self._loss
