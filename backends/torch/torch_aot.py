"""A network that is exported and compiled ahead of time (AOTInductor)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_network import Network


class Inference(nn.Module):
    """The forward pass in inference mode as the module's own call, as torch.export wants it."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network.infer(inputs)
        return logits


def packaged(network: Network, inputs: Tensor, package: Path) -> Callable[[Tensor], Tensor]:
    """Export the network with its present weights, compile it into a package, and load that.

    inputs: a batch of the shape and layout of all others.
    """
    with torch.inference_mode(False), torch.no_grad():
        exported = torch.export.export(Inference(network), (inputs.clone(),))
        path = torch._inductor.aoti_compile_and_package(exported, package_path=str(package))
    compiled: Callable[[Tensor], Tensor] = torch._inductor.aoti_load_package(path)
    return compiled
