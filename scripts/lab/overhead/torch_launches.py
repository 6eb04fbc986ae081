"""Count the operations of a training step of PyTorch, as torch_loop.py trains a network in mode eager.

    torch_launches.py NETWORK PRECISION

Prints how many operations PyTorch's dispatcher runs that are not only another view of a tensor. On a GPU
each is one launch or more. They are counted on a CPU, with the optimizer in the form that PyTorch takes on a
GPU (over all tensors together) and a small batch, which does not change their number.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from clock import resident_batches
from networks import NETWORKS
from torch.utils._python_dispatch import TorchDispatchMode
from torch_loop import Torch, Training

# They compute nothing, although their results are no views by their schema.
WITHOUT_WORK = {
    *("aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"),
    *("aten::_unsafe_view", "aten::_local_scalar_dense", "aten::detach", "aten::lift_fresh", "aten::resize_"),
}


def launches_of(operation: Any, arguments: Sequence[Any]) -> int:
    """Return the least number of launches of an operation."""
    schema = operation._schema
    if schema.name in WITHOUT_WORK:
        return 0
    aliases = [result.alias_info for result in schema.returns]
    if aliases and all(alias is not None and not alias.is_write for alias in aliases):
        return 0
    if schema.name == "aten::convolution_backward":
        return sum(arguments[-1])  # a mask: which of the three gradients are wanted
    return 1


class Launches(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.count: int = 0

    def __torch_dispatch__(
        self,
        operation: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        named: Mapping[str, Any] | None = None,
    ) -> Any:
        self.count += launches_of(operation, arguments)
        return operation(*arguments, **(named or {}))


def count(name: str, precision: str) -> int:
    network = replace(NETWORKS[name], batch=2)
    framework = Torch()
    framework.precision = precision
    loop = framework.resident(name, network, "eager", "train", resident_batches(network))
    assert isinstance(loop, Training)
    for group in loop.optimizer.param_groups:
        group["foreach"] = True
    loop.run(1)  # the optimizer makes its moments
    with Launches() as launches:
        loop.run(1)
    return int(launches.count)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(count(sys.argv[1], sys.argv[2]))
