"""Faults that end or spoil a cell of any adapter, in step 17 of the worker unless the name says otherwise.

ASSAY_FAULT_RANK: only this rank has the fault.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from mutant import Mutant, Step, Tensors, copied, of

STEP = 17
GIBIBYTE = 1 << 30


class Fault(Mutant):
    """`status` and `codes`: of the row, if a cell has these options and this number of forks."""

    status = "failed"
    codes = ("worker_failed",)
    options: tuple[str, ...] = ("--check=false",)
    forks = 1
    before_import: ClassVar[Any] = staticmethod(lambda: None)

    def fail(self, slot: int) -> None:
        """Called in step 17."""

    def changed_step(self, step: Step) -> Step:
        if self.steps == STEP:
            self.fail(step.slot)
        return step


def raise_error(_: Fault, slot: int) -> NoReturn:
    raise RuntimeError("no such luck")


def crash(_: Fault, slot: int) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def kill_child(_: Fault, slot: int) -> None:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    os.kill(int(children.split()[-1]), signal.SIGKILL)


def loop(_: Fault, slot: int) -> NoReturn:
    while True:
        pass


def starve(fault: Fault, slot: int) -> None:
    """Leave the process little more address space than it has, and ask for a batch of 1 GiB."""
    lazy = np.zeros((GIBIBYTE // 4 // 784, 1, 28, 28), np.float32)  # not touched: no memory yet
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + GIBIBYTE // 8, resource.RLIM_INFINITY))
    another = 99  # a slot that holds nothing yet
    fault.stage(another, lazy, np.zeros(len(lazy), np.int32))
    fault.step(another, 0.0, STEP)
    fault.synchronize()


def stage_other_shape(fault: Fault, slot: int) -> None:
    fault.stage(slot, np.zeros((6, 1, 5, 5), np.float32), np.zeros(6, np.int32))


def import_nothing() -> None:
    import no_such_framework  # noqa: F401


def trace_late() -> None:
    """Let JAX's first trace of an exchange take longer than gloo waits for other ranks, which is 30 s."""
    from jax import lax

    of_jax = lax.pmean

    def pmean(*given: Any) -> Any:
        lax.pmean = of_jax
        time.sleep(35)
        return of_jax(*given)

    lax.pmean = pmean


class LosesItsLoss(Fault):
    """The loss is NaN."""

    codes = ("loss_not_finite",)

    def loss(self) -> float:
        return float("nan") if self.steps >= STEP else super().loss()


class TellsAnotherMoment(Fault):
    """A moment is a hundredth too large."""

    status = "wrong_result"
    codes = ("differs_from_oracle",)
    options = ()

    def state(self) -> Tensors:
        found = super().state()
        return found | {"fc1.weight.m": found["fc1.weight.m"] * np.float32(1.01)}


class ChangesLaterQuestions(Fault):
    """It writes to a file of the exam in a later fork of a resident process: not all of them are examined."""

    codes = ("exam_changed",)
    options = ("--fork-style", "resident")
    forks = 3
    was_timed = False

    def changed_step(self, step: Step) -> Step:
        timed = (self.folder / "results/clock.json").exists()
        if self.was_timed and not timed:
            with (self.folder / "check/batches.json").open("a") as file:
                file.write(" ")  # it stays valid
        self.was_timed = timed
        return step


class EndsWithInfinity(Fault):
    """The last of its 31 steps, after the one that compiles, leaves an infinite bias."""

    suffix = ".bias"  # of the tensor's name
    codes = ("parameters_not_finite",)
    options = ("--warm-up-steps", "1", "--warm-up-seconds", "0")

    def step(self, slot: int, rate: float, number: int) -> None:
        super().step(slot, rate, number)
        if self.steps == 32:
            now = copied(super().state())
            name = next(name for name in now if name.endswith(self.suffix))
            now[name].flat[0] = np.inf
            super(Mutant, self).set_state(now)  # type: ignore[misc]


class EndsWithInfiniteMoment(EndsWithInfinity):
    """The same of a moment of the optimizer."""

    suffix = ".v"


class SleepsInEachStep(Fault):
    """A step takes 30 ms longer."""

    status = "ok"
    codes = ()

    def step(self, slot: int, rate: float, number: int) -> None:
        super().step(slot, rate, number)
        time.sleep(0.03)


FAULTS: dict[str, type[Fault]] = {
    "import": of("Its framework is missing.", Fault, before_import=staticmethod(import_nothing), status="unavailable", codes=("worker_unavailable",)),
    "exception": of("An exception.", Fault, fail=raise_error),
    "memory": of("There is no memory.", Fault, fail=starve, status="out_of_memory", codes=("worker_out_of_memory",)),
    "crash": of("SIGSEGV.", Fault, fail=crash, status="crashed", codes=("killed_by_signal",)),
    "loop": of("A step does not end.", Fault, fail=loop, status="timed_out", codes=("time_limit",), options=("--check=false", "--time-limit", "3")),
    "nan": LosesItsLoss,
    "moment": TellsAnotherMoment,
    "shape": of("A batch has another shape.", Fault, fail=stage_other_shape),
    "questions": ChangesLaterQuestions,
}  # fmt: skip
RANK_FAULTS: dict[str, type[Fault]] = {  # of some adapters
    "infinity": EndsWithInfinity,
    "infinite-moment": EndsWithInfiniteMoment,
    "child": of("Its last child is killed.", Fault, fail=kill_child, codes=("worker_exited",)),
    "slow": SleepsInEachStep,
    "compiles_late": of("It compiles for 35 s.", Fault, before_import=staticmethod(trace_late), status="ok", codes=()),
}  # fmt: skip
