"""A backend's own worker with one fault built in, in step 17 unless its name says otherwise.

WORKER=backends/torch/worker.py FAULT=crash python faulty_worker.py CELL_FOLDER

FAULT_RANK: only this rank has the fault. PROCESSES: a folder in which each worker leaves a file named by its
process.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WORKER = Path(os.environ["WORKER"])
FAULT = os.environ["FAULT"]
if os.environ.get("FAULT_RANK", os.environ.get("RANK")) != os.environ.get("RANK"):
    FAULT = "none"
if "PROCESSES" in os.environ:
    (Path(os.environ["PROCESSES"]) / str(os.getpid())).touch()
PYTHON = Path(__file__).resolve().parents[2] / "backends/python"
sys.path[:0] = [str(PYTHON), str(WORKER.parent)]

from assay_worker import Adapter, worker_main  # noqa: E402

STEP = 17
CELL = Path(sys.argv[-1])
GIBIBYTE = 1 << 30


def starve(adapter: Adapter) -> None:
    """Leave the process little more address space than it has, and ask for a batch of 1 GiB."""
    lazy = np.zeros((GIBIBYTE // 4 // 784, 1, 28, 28), np.float32)  # not touched: no memory yet
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GIBIBYTE // 8, resource.RLIM_INFINITY))
    another = 99  # a slot that holds nothing yet
    adapter.stage(another, lazy, np.zeros(len(lazy), np.int32))
    adapter.step(another, 0.0, STEP)
    adapter.synchronize()


def faulty(base: type[Adapter]) -> type[Adapter]:
    class Faulty(base):  # type: ignore[misc,valid-type]
        _steps = 0
        _was_timed = False

        @classmethod
        def of(cls, program: Any) -> type[Adapter]:
            return cls

        def step(self, slot: int, learning_rate: float, step: int) -> None:
            self._steps += 1
            if self._steps == STEP:
                if FAULT == "exception":
                    raise RuntimeError("no such luck")
                if FAULT == "crash":
                    os.kill(os.getpid(), signal.SIGSEGV)
                if FAULT == "child":
                    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
                    os.kill(int(children.split()[-1]), signal.SIGKILL)
                if FAULT == "memory":
                    starve(self)
                while FAULT == "loop":
                    pass
                if FAULT == "shape":
                    self.stage(slot, np.zeros((6, 1, 5, 5), np.float32), np.zeros(6, np.int32))
            timed = (CELL / "results/clock.json").exists()
            if FAULT == "questions" and self._was_timed and not timed:  # in a later fork
                with (CELL / "check/batches.json").open("a") as file:
                    file.write(" ")  # it stays valid
            self._was_timed = timed
            super().step(slot, learning_rate, step)

        def loss(self) -> float:
            return float("nan") if FAULT == "nan" and self._steps >= STEP else super().loss()

        def state(self) -> dict[str, np.ndarray]:
            found = super().state()
            if FAULT == "moment":
                found = found | {"fc1.weight.m": found["fc1.weight.m"] * np.float32(1.01)}
            return found

    return Faulty


def trace_late() -> None:
    """Let JAX's first trace of an exchange take longer than gloo waits for other ranks, which is 30 s."""
    from jax import lax

    of_jax = lax.pmean

    def pmean(*given: Any) -> Any:
        lax.pmean = of_jax
        time.sleep(35)
        return of_jax(*given)

    lax.pmean = pmean


def adapter() -> type[Adapter]:
    if FAULT == "import":
        import no_such_framework  # noqa: F401
    if FAULT == "compiles_late":
        trace_late()
    spec = importlib.util.spec_from_file_location("worker", WORKER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return faulty(module.NumpyAdapter if hasattr(module, "NumpyAdapter") else module.adapter())


if __name__ == "__main__":
    worker_main(adapter)
