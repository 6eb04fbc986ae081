"""A backend's own worker whose ranks make one mistake of rank_mistakes.py.

WORKER=backends/torch/worker.py MISTAKE=SumsGradients python wrong_ranks_worker.py CELL_FOLDER
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

WORKER = Path(os.environ["WORKER"])
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "backends/python"), str(WORKER.parent)]

from assay_worker import Adapter, worker_main  # noqa: E402
from rank_mistakes import CHEATS, MISTAKES, Mistake  # noqa: E402


class Ranked:
    """Tells a mistake its place."""

    def __init__(self, program: Any, cell: Any) -> None:
        self.rank, self.world = cell.rank, cell.world
        super().__init__(program, cell)  # type: ignore[call-arg]


def of_numpy(module: ModuleType) -> type[Adapter]:
    class Spoilt(module.NumpyAdapter):  # type: ignore[misc,name-defined]
        def _averaged(self, gradients: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            spoilt: dict[str, np.ndarray] = self.spoilt(super()._averaged(gradients), gradients)
            return spoilt

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = np.float32(self.world) * array.astype(np.float32) if self.rank == 0 else 0 * array
            mean: np.ndarray = self._ranks.mean(given.astype(np.float32))
            return mean.astype(array.dtype)

    return Spoilt


def of_torch(module: ModuleType) -> type[Adapter]:
    import torch
    import torch.distributed as dist

    class Spoilt(module.adapter()):  # type: ignore[misc]
        def _step(self, inputs: Any, labels: Any) -> Any:
            held = {value.name: self._network.tensor(value.name) for value in self._program.parameters}
            with self._autocast():
                loss, _ = self._forward(inputs, labels)
            loss.backward()
            with self._autocast():
                alone, _ = self._network(inputs, labels)
            own = dict(zip(held, torch.autograd.grad(alone, list(held.values())), strict=True))
            means = {name: parameter.grad.clone() for name, parameter in held.items()}
            for name, gradient in self.spoilt(means, own).items():
                held[name].grad = gradient.clone()
            self._optimizer.update()
            return loss

        def of_rank_0(self, array: np.ndarray) -> np.ndarray:
            given = torch.from_numpy(array.copy())
            dist.broadcast(given, 0)
            return np.array(given.numpy())

    return Spoilt


def adapter() -> type[Adapter]:
    spec = importlib.util.spec_from_file_location("worker", WORKER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    spoilt = of_numpy(module) if hasattr(module, "NumpyAdapter") else of_torch(module)
    mistake = (MISTAKES | CHEATS).get(os.environ["MISTAKE"], Mistake)  # another name: no mistake
    return type("Mistaken", (mistake, Ranked, spoilt), {})


if __name__ == "__main__":
    worker_main(adapter)
