"""The training samples through Gluon's DataLoader."""

from __future__ import annotations

import numpy as np
from assay_worker import Cell, Samples
from mxnet import gluon


class SampleDataset(gluon.data.Dataset):
    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> tuple[np.ndarray, float | np.ndarray]:
        inputs, label = self._samples[index]
        return inputs, label.astype(np.float32) if isinstance(label, np.ndarray) else float(label)


def make_loader(samples: Samples, batch: int, cell: Cell) -> gluon.data.DataLoader:
    """Shuffle again in each pass. Workers, if requested, are processes that are started once."""
    return gluon.data.DataLoader(
        SampleDataset(samples),
        batch_size=batch,
        shuffle=True,
        last_batch="discard",
        num_workers=cell.loader_workers,
    )
