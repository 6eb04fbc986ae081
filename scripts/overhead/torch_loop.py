"""What a user of PyTorch writes: two networks, Adam, a loop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

Batches = list[tuple[np.ndarray, np.ndarray]]


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def lenet5() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 3), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def make(workload: str, mode: str, batches: Batches) -> Callable[[int, int], float]:
    """Give what trains so many steps from a number on, rotating the batches, and gives the last loss."""
    model = {"mlp": mlp, "lenet5": lenet5}[workload]()
    loss_of = nn.CrossEntropyLoss()

    def forward(inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss_of(model(inputs), labels)

    if mode == "compile":
        forward = torch.compile(forward, fullgraph=True, dynamic=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    held = [(torch.tensor(x), torch.tensor(y, dtype=torch.int64)) for x, y in batches]

    def run(first: int, steps: int) -> float:
        for i in range(first, first + steps):
            inputs, labels = held[i % len(held)]
            loss = forward(inputs, labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return float(loss.item())

    return run
