"""The ops of a backend.json are those for which its adapter has a function."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from worker_under_test import ROOT

DESCRIPTIONS = [
    *(ROOT / "backends").glob("*/backend.json"),
    ROOT / "tests" / "numpy_backend" / "backend.json",
]
ADAPTERS = sorted(file for file in DESCRIPTIONS if (file.parent / "worker.py").exists())


def ops_of(folder: Path) -> set[str]:
    """Read the keys of the table OPS, and the loss of an adapter that has it apart; import nothing."""
    found: set[str] = set()
    for source in folder.glob("*.py"):
        for statement in ast.parse(source.read_text()).body:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            names = {target.id for target in targets if isinstance(target, ast.Name)}
            if "OPS" in names:
                found |= {ast.literal_eval(key) for key in statement.value.keys}
            if "LOSS" in names:
                found.add(ast.literal_eval(statement.value))
    return found


@pytest.mark.parametrize("description", ADAPTERS, ids=lambda file: file.parent.name)
def test_backend_json_says_the_ops_that_the_adapter_has(description: Path) -> None:
    assert json.loads(description.read_text())["ops"] == sorted(ops_of(description.parent))


def test_there_are_adapters_to_ask() -> None:
    assert {"torch", "numpy_backend"} <= {file.parent.name for file in ADAPTERS}
