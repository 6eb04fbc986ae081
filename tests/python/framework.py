"""Shared by the tests of the framework workers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from assay_worker.tensors import Tensors, read_tensors, write_tensors
from test_protocol import WORKER, talk
from worker_under_test import ROOT

SHARE = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "assay"
ENVIRONMENTS = Path(os.environ.get("ASSAY_ENVIRONMENTS") or SHARE / "environments")


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

    def ask(self, folder: Path) -> tuple[Tensors, list[dict[str, Any]]]:
        """Let it take the exam; return what it wrote and its events."""
        return _ask(folder, self.worker, str(self.python))

    def hear(self, folder: Path, *commands: str) -> list[dict[str, Any]]:
        return talk(folder, [{"command": command} for command in commands], self.worker, str(self.python))[0]


def ask_numpy(folder: Path) -> Tensors:
    return _ask(folder, WORKER, sys.executable)[0]


def _ask(folder: Path, worker: Path, python: str) -> tuple[Tensors, list[dict[str, Any]]]:
    heard, _ = talk(folder, ["compile", "verify", "quit"], worker, python)
    assert [event["event"] for event in heard] == ["hello", "compiled", "verified", "bye"], heard
    return read_tensors(folder / "results/verify.safetensors"), heard


def assert_same(found: Tensors, expected: Tensors, rtol: float, atol: float) -> None:
    """Compare the parts that do not depend on the speed of the steps."""
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        if name.startswith("continuation/"):
            continue
        np.testing.assert_allclose(found[name], tensor, rtol=rtol, atol=atol, err_msg=name)


def assert_computes_with_changed_weights(framework: Framework, folder: Path) -> list[dict[str, Any]]:
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
    Framework("torch", "PyTorch", "compile", compiled_ops=frozenset({"linear", "reduce", "embedding"})),
    Framework("jax", "XLA", "jit"),
    Framework("tensorflow", "TensorFlow", "graph"),
    Framework("mxnet", "MXNet", "hybridize", precisions=("fp32",), rmsprop_epsilon=1e-8),
]
EACH = [pytest.param(framework, marks=framework.skip, id=framework.name) for framework in FRAMEWORKS]
