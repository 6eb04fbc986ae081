"""The training samples of a cell folder one by one, for a framework's own loader.

They equal those of the batch library (docs/reference/protocol.md, "The data set").
The loader chooses their order.
"""

from __future__ import annotations

import json
import mmap
from pathlib import Path

import numpy as np

from .errors import Unsupported


class Samples:
    """The rows of one epoch's plan: f32 (C, H, W) or i32 tokens, and the label as a whole number.

    If every position of a sample has a label, they are an array of i64 (T).
    """

    def __init__(self, cell_folder: Path) -> None:
        manifest = json.loads((cell_folder / "data/manifest.json").read_text())
        if manifest["kind"] != "array":
            raise Unsupported(
                f"[native] a data set of kind {manifest['kind']!r} can be decoded only by the batch library: "
                "use --loader harness"
            )
        split = manifest["splits"]["train"]
        shown = slice(split["first"], split["first"] + split["count"])
        self.raw = np.load(cell_folder / split["inputs"], mmap_mode="r")[shown]
        self.labels = np.load(cell_folder / split["labels"], mmap_mode="r")[shown]
        self.tokens = "vocabulary" in manifest
        shape = (-1, *[1] * (len(manifest["sample_shape"]) - 1))
        normalisation = manifest.get("normalisation", {"scale": [1], "shift": [0]})
        self.scale, self.shift = (
            np.array(normalisation[name], np.float32).reshape(shape) for name in ("scale", "shift")
        )
        self._folder = cell_folder
        self.rows = shared(self._plan(1))

    def start(self, epoch: int) -> None:
        """Use the samples of that epoch's plan, or of the last plan if the epoch has none."""
        self.rows[...] = self._plan(epoch)

    def _plan(self, epoch: int) -> np.ndarray:
        while not (path := self._folder / f"epochs/{epoch:04}.plan.npy").exists() and epoch > 1:
            epoch -= 1
        plan: np.ndarray = np.load(path)
        return plan

    @property
    def moved(self) -> bool:
        """Whether the plan crops or mirrors."""
        return bool(self.rows[:, 1:].any())

    def __len__(self) -> int:
        return len(self.rows)

    def _label(self, sample: int) -> int | np.ndarray:
        found = self.labels[sample]
        return np.array(found, np.int64) if found.ndim else int(found)

    def __getitem__(self, index: int) -> tuple[np.ndarray, int | np.ndarray]:
        sample, dx, dy, flip = self.rows[index].tolist()
        raw = self.raw[sample]
        if self.tokens:
            return np.array(raw), self._label(sample)
        if dx or dy:
            raw = _shifted(raw, dx, dy)
        if flip:
            raw = raw[:, :, ::-1]
        return raw.astype(np.float32) * self.scale + self.shift, self._label(sample)


def shared(plan: np.ndarray) -> np.ndarray:
    """Copy a plan to memory that a loader's processes share: forked once, they see the plan of each epoch."""
    memory = mmap.mmap(-1, max(1, plan.nbytes))
    rows = np.frombuffer(memory, plan.dtype, plan.size).reshape(plan.shape)
    rows[...] = plan
    return rows


def _shifted(raw: np.ndarray, dx: int, dy: int) -> np.ndarray:
    """Return out[c][y][x] = raw[c][y + dy][x + dx], zero outside."""
    padded = np.pad(raw, ((0, 0), (abs(dy),) * 2, (abs(dx),) * 2))
    _, height, width = raw.shape
    top, left = abs(dy) + dy, abs(dx) + dx
    return padded[:, top : top + height, left : left + width]
