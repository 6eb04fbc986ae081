"""Shared by the tests of the framework workers."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from assay_worker import Cell
from assay_worker.serve import Server
from assay_worker.tensors import Tensors, read_tensors, write_tensors
from conversation import Events, talk
from mutant_worker import register
from preloaded import Preloaded
from worker_under_test import ROOT, numpy_adapter

SHARE = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "assay"
ENVIRONMENTS = Path(os.environ.get("ASSAY_ENVIRONMENTS") or SHARE / "environments")
SHARED = Path(os.environ["ASSAY_TESTS_SHARED"])  # made by conftest.py


@dataclass(frozen=True)
class Framework:
    """A backend under backends/ with its own environment."""

    name: str
    library: str  # what its hello names
    compiled: str  # the mode that compiles ahead
    precisions: tuple[str, ...] = ("fp32", "bf16")
    # Large enough to show where it is added, unless the framework adds it below the root.
    rmsprop_epsilon: float = 1e-2
    # The only ops that a test compiles, if one takes seconds; empty: all.
    compiled_ops: frozenset[str] = frozenset()
    # Modes whose variables the framework reads when it is imported.
    imported_modes: frozenset[str] = frozenset()
    # Modes of single ops only: as one function, or as one layer.
    op_modes: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.name / "bin/python"

    @property
    def worker(self) -> Path:
        return ROOT / "backends" / self.name / "worker.py"

    @property
    def skip(self) -> pytest.MarkDecorator:
        reason = f"{self.name} is not set up: scripts/setup --framework {self.name}"
        return pytest.mark.skipif(not self.python.exists(), reason=reason)

    def command(self, mode: str) -> list[str]:
        """Return the command that starts a worker at once, if the mode can be chosen after the import."""
        if mode in self.imported_modes:
            return self.fresh
        return preloaded(self.name).command(str(self.worker))

    @property
    def fresh(self) -> list[str]:
        """The command that starts a worker as backend.json does."""
        return [str(self.python), str(self.worker)]

    def ask(self, folder: Path, fresh: bool = False) -> tuple[Tensors, Events]:
        """Let it take the exam; return what it wrote and its events."""
        heard = self.hear(folder, "compile", "verify", "quit", fresh=fresh)
        assert [event["event"] for event in heard] == ["hello", "compiled", "verified", "bye"], heard
        return read_tensors(folder / "results/verify.safetensors"), heard

    def hear(self, folder: Path, *commands: str, fresh: bool = False) -> Events:
        mode = json.loads((folder / "request.json").read_text())["mode"]
        command = self.fresh if fresh else self.command(mode)
        return talk(folder, [{"command": name} for name in commands], command, self.variables())[0]

    def variables(self) -> dict[str, str]:
        """Let workers share what they compiled, as --compile-cache warm does."""
        described = json.loads((self.worker.parent / "backend.json").read_text())
        variables = described.get("environment", {}) | described.get("warm_environment", {})
        cache = str(SHARED / self.name)
        return {name: value.replace("${cache}", cache) for name, value in variables.items()}


@cache
def preloaded(name: str) -> Preloaded:
    """The process that has imported this framework, for the tests of all processes of pytest-xdist."""
    socket = SHARED / f"{name}.socket"
    return Preloaded(ENVIRONMENTS / name / "bin/python", ROOT / "backends" / name, socket).__enter__()


def command_of(backend: str, worker: Path, mode: str = "eager") -> list[str]:
    """Return the command of a backend.json for this worker; that of a framework starts at once if it can."""
    framework = next((framework for framework in FRAMEWORKS if framework.name == backend), None)
    if framework is None or mode in framework.imported_modes:
        return ["${interpreter}", str(worker)]
    return preloaded(backend).command(str(worker))


def at_once(tree: Path, backend: str, mode: str) -> Path:
    """Return a folder of backends, with a worker of this one that starts at once if its mode allows it."""
    worker = BY_NAME[backend].worker if backend in BY_NAME else None
    if worker is None or mode in BY_NAME[backend].imported_modes:
        return ROOT / "tests"
    command = command_of(backend, worker, mode)
    return register(tree / "at-once", backend, worker.parent, "unchanged", command=command)


def ask_numpy(folder: Path) -> Tensors:
    """Let the numpy adapter take the exam in this process."""
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    server = Server(numpy_adapter(), cell, lambda _: None)
    heard = [server.answer({"command": command})["event"] for command in ("compile", "verify", "quit")]
    assert heard == ["compiled", "verified", "bye"]
    return read_tensors(folder / "results/verify.safetensors")


def assert_same(found: Tensors, expected: Tensors, rtol: float, atol: float) -> None:
    """Compare the parts that do not depend on the speed of the steps."""
    found, expected = (
        {name: tensor for name, tensor in each.items() if not name.startswith("continuation/")}
        for each in (found, expected)
    )
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, rtol=rtol, atol=atol, err_msg=name)


def take_what_dropout_drew(answers: Tensors) -> Tensors:
    """Take the answers that depend on what the worker drew out of those of a worker."""
    own = [name for name in answers if name.startswith(("draws/", "timed/"))]
    return {name: answers.pop(name) for name in own}


def assert_computes_with_what_it_drew(drawn: Tensors, folder: Path) -> None:
    """The program that draws and the one that takes its masks did the same steps from the exam's state."""
    start = read_tensors(folder / "check/state.safetensors")
    losses = drawn["timed/loss"]
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=1e-5)
    assert len(np.unique(losses[:, 0])) == 3, "each step draws masks of its own"
    names = [name.removeprefix("timed/taken/") for name in drawn if name.startswith("timed/taken/")]
    assert len(names) == 18, "six parameters, two moments of each"
    for name in names:
        for step, taken in enumerate(drawn[f"timed/taken/{name}"]):
            distance = np.linalg.norm(taken - drawn[f"timed/drawn/{name}"][step])
            moved = np.linalg.norm(taken - start.get(name, 0))
            assert distance < 1e-2 * moved + 1e-6 * np.linalg.norm(taken), name


def assert_computes_with_changed_weights(framework: Framework, folder: Path) -> Events:
    """Give new weights to a mode that keeps weights in its own format; return the worker's events.

    The weights of the exam differ from those of the first step; `eager` gives the correct results.
    """
    given = read_tensors(folder / "check/state.safetensors")
    changed = {name: tensor * np.float32(1.25) for name, tensor in given.items()}
    write_tensors(folder / "check/state.safetensors", changed)
    answers, heard = framework.ask(folder)
    request = json.loads((folder / "request.json").read_text())
    (folder / "request.json").write_text(json.dumps(request | {"mode": "eager"}))
    assert_same(answers, framework.ask(folder)[0], 2e-5, 2e-6)
    return heard


FRAMEWORKS = [
    Framework(
        "torch",
        "PyTorch",
        "compile",
        compiled_ops=frozenset({"linear", "reduce", "embedding"}),
        op_modes=("layer",),
    ),
    Framework("jax", "XLA", "jit"),
    Framework(
        "tensorflow",
        "TensorFlow",
        "graph",
        imported_modes=frozenset({"autocluster", "fit-autocluster"}),
        op_modes=("function", "tensordot", "layer"),
    ),
    Framework(
        "mxnet",
        "MXNet",
        "hybridize",
        precisions=("fp32",),
        rmsprop_epsilon=1e-8,
        op_modes=("function", "layer"),
    ),
]
BY_NAME = {framework.name: framework for framework in FRAMEWORKS}
EACH = [pytest.param(framework, marks=framework.skip, id=framework.name) for framework in FRAMEWORKS]
