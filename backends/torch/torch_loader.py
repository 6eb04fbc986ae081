"""The training samples through torch.utils.data."""

from __future__ import annotations

import numpy as np
import torch
from assay_worker import Cell, Samples
from torch.utils.data import DataLoader, Dataset


class SampleDataset(Dataset[tuple[np.ndarray, int | np.ndarray]]):
    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int | np.ndarray]:
        return self._samples[index]


def make_loader(samples: Samples, batch: int, cell: Cell, generator: torch.Generator) -> DataLoader:
    """Shuffle again in each pass with `generator`. Workers, if requested, are processes that are kept."""
    return DataLoader(
        SampleDataset(samples),
        batch_size=batch,
        shuffle=True,
        drop_last=True,
        num_workers=cell.loader_workers,
        persistent_workers=cell.loader_workers > 0,
        pin_memory=cell.device == "cuda",
        generator=generator,
    )
