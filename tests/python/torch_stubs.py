"""How backend torch captures a step and uploads batches, on stand-ins for the parts of torch that need a GPU.

Started by torch's interpreter with the folder of the backend: test_torch_backend.py. Prints JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any
from unittest import mock

sys.path.insert(0, sys.argv[1])

import numpy as np
import torch
import torch_capture
import torch_upload


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


print(json.dumps({"capture": capture(), "upload": upload()}))
