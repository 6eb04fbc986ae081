"""Work that is recorded once as a CUDA graph and then replayed.

In mode `cudagraph` this is a whole training step; with the command `time_device` many steps of a single op.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from assay_worker import Unsupported
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
        with _capturing(self._graph):
            self._loss = step(self._inputs, self._labels)

    def replay(self, inputs: Tensor, labels: Tensor) -> Tensor:
        self._inputs.copy_(inputs)
        self._labels.copy_(labels)
        self._graph.replay()
        return self._loss


class CapturedRun:
    """Work that has run before, so that nothing is compiled or loaded while it is recorded."""

    def __init__(self, work: Callable[[], None]) -> None:
        """Record it. Raise Unsupported if that is impossible."""
        self._graph = torch.cuda.CUDAGraph()
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("error", message=".*CUDA Graph is empty")
                with _capturing(self._graph):
                    work()
        except UserWarning as error:
            raise Unsupported("[time_device] a step does nothing on the device: the op is a view") from error
        except RuntimeError as error:
            raise Unsupported(f"[time_device] the steps cannot be captured: {error}") from error

    def seconds(self) -> float:
        """Replay it twice and return the second's seconds: its launch is hidden behind the first."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._graph.replay()
        begin.record()
        self._graph.replay()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3


def _capturing(graph: torch.cuda.CUDAGraph) -> torch.cuda.graph:
    # Other threads, such as the one of a loader that pins memory, may call CUDA meanwhile.
    return torch.cuda.graph(graph, capture_error_mode="thread_local")
