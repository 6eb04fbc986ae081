"""How backend torch captures a step, uploads batches and divides gradients into buckets.

Parts of torch that need a GPU have stand-ins.

Started by torch's interpreter with the folder of the backend: test_torch_backend.py. Prints JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, sys.argv[1])
sys.path.append(str(Path(sys.argv[1]).parent / "python"))

import numpy as np
import torch
import torch.distributed as dist
import torch_capture
import torch_ranks
import torch_settings
import torch_upload
from assay_worker import Cell, Unsupported

MODES = ("eager", "cudnn-benchmark")


def capture() -> dict[str, Any]:
    """Capture a step; return in which context it was called, and with what the graph was made."""
    contexts: list[str] = ["default"]
    steps: list[str] = []

    def inside(name: str) -> mock.MagicMock:
        context = mock.MagicMock()
        context.return_value.__enter__.side_effect = lambda *_: contexts.append(name)
        context.return_value.__exit__.side_effect = lambda *_: contexts.pop() is None
        return context

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        steps.append(contexts[-1])
        return (inputs * labels).sum()

    graph = inside("graph")
    with mock.patch.multiple(
        torch.cuda,
        Stream=mock.DEFAULT,
        current_stream=mock.DEFAULT,
        CUDAGraph=mock.DEFAULT,
        stream=inside("aside"),
        graph=graph,
    ):
        torch_capture.CapturedStep(step, torch.ones(2), torch.ones(2))
    return {"steps": steps, "warm_up": torch_capture.WARM_UP_STEPS, "options": graph.call_args.kwargs}


def device() -> dict[str, Any]:
    """Record work and time it; return the calls in their order, the seconds, and the reason of a failure."""
    calls = mock.Mock()
    calls.end.elapsed_time.side_effect = AssertionError("from begin to end")
    calls.begin.elapsed_time.return_value = 12.5  # milliseconds
    graph = mock.MagicMock()
    with mock.patch.multiple(
        torch.cuda,
        CUDAGraph=mock.Mock(return_value=calls.graph),
        Event=mock.Mock(side_effect=[calls.begin, calls.end]),
        graph=graph,
    ):
        run = torch_capture.CapturedRun(calls.work)
        seconds = run.seconds()
        failing = mock.Mock(side_effect=RuntimeError("operation not permitted when stream is capturing"))
        try:
            torch_capture.CapturedRun(failing)
        except Unsupported as error:
            reason = str(error)
    return {
        "calls": [name for name, _, _ in calls.mock_calls],
        "options": graph.call_args.kwargs,
        "seconds": seconds,
        "reason": reason,
    }


def upload() -> dict[str, Any]:
    """Send one array; return the calls in their order, and how the buffer on the host was made."""
    calls = mock.Mock()
    calls.target.shape, calls.target.dtype = (2,), torch.float32
    with (
        mock.patch.object(torch, "empty", return_value=calls.pinned) as empty,
        mock.patch.object(torch.cuda, "Event", return_value=calls.event),
    ):
        torch_upload.Upload(calls.target).send(np.ones(2, np.float32))
    return {
        "calls": [name for name, _, _ in calls.mock_calls],
        "options": [options for _, _, options in calls.mock_calls],
        "to_the_gpu": calls.target.copy_.call_args.args == (calls.pinned,),
        "pinned": empty.call_args.kwargs.get("pin_memory"),
    }


def buckets() -> dict[str, list[int]]:
    """Return the sizes of PyTorch's buckets of gradients, and of those of the bare exchange."""
    sizes = [300_000, 5, 200_000, 100, 7_000_000, 10, 3_000_000, 40]
    gradients, limits = [torch.zeros(size) for size in sizes], [dist._DEFAULT_FIRST_BUCKET_BYTES, 25 << 20]
    found, _ = dist._compute_bucket_assignment_by_size(gradients, limits, [False] * len(sizes))
    theirs = [sum(sizes[place] for place in bucket) for bucket in found]
    return {"theirs": theirs, "ours": torch_ranks.bucket_sizes(sizes)}


def settings() -> list[dict[str, Any]]:
    """The layout of images and cuDNN's search, by device, precision, layout and mode."""
    found = []
    for device, precision, layout, mode in itertools.product(
        ("cpu", "cuda"), ("fp32", "tf32", "bf16"), ("native", "channels_last", "channels_first"), MODES
    ):
        axes = {"device": device, "precision": precision, "layout": layout, "mode": mode}
        cell = Cell(Path(), axes | {"threads": 1})
        with mock.patch.object(torch, "set_num_interop_threads"):  # can be set once
            torch_settings.configure(cell)
        last = torch_settings.format_of(cell) == torch.channels_last
        found.append(axes | {"last": last, "searches": torch.backends.cudnn.benchmark})
    return found


parts = {"capture": capture(), "device": device(), "upload": upload(), "buckets": buckets()}
print(json.dumps(parts | {"settings": settings(), "compile": torch_settings.COMPILE}))
