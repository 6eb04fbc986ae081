"""The results of a measurement: a file that is written after each pair and that a later run continues."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from assay_overhead.cells import Cell
from assay_overhead.pair import LOOPS, ROOT, Conditions, Pair, order_of
from assay_overhead.settings import Setting, differences
from assay_overhead.turns import ADAPTER, LOOP, Ratio

SCHEMA = "assay-overhead/2"


class OtherConditions(ValueError):
    """The file is from another machine, or was measured with other options."""


def sources_of(framework: str) -> str:
    """Return a digest of the adapter, the code of all workers, and the loop."""
    files = [*(ROOT / "backends" / framework).glob("*"), *(ROOT / "backends/python").rglob("*.py")]
    files += [LOOPS / name for name in ("clock.py", "networks.py", "write_model.py")]
    files += LOOPS.glob(f"{framework}_*.py")
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def turns_of(cell: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the saved turns of a cell, over its pairs."""
    return [turn for pair in cell["pairs"] for turn in pair["turns"]]


class Results:
    """The pairs of each cell; they are saved only if there is a path."""

    def __init__(self, path: Path | None, machine: dict[str, Any], conditions: Conditions) -> None:
        self._path = path
        facts = {"machine": machine, "conditions": conditions.as_json()}
        self.held: dict[str, Any] = {"schema": SCHEMA, **facts, "cells": {}}
        if path is None or not path.exists():
            return
        kept = json.loads(path.read_text())
        if kept.get("schema") != SCHEMA:
            raise OtherConditions(f"{path}: not a file of {SCHEMA}; give another --out")
        for name, fact in facts.items():
            if kept[name] != fact:
                raise OtherConditions(
                    f"{path}: measured with another {name}: {kept[name]}, now {fact}; give another --out"
                )
        self.held = kept

    def cell(self, cell: Cell) -> dict[str, Any]:
        """Return the saved data of a cell, with its list of pairs."""
        empty: dict[str, Any] = {**asdict(cell), "sources": sources_of(cell.framework)}
        found: dict[str, Any] = self.held["cells"].setdefault(
            cell.name, {**empty, "made_again": 0, "pairs": []}
        )
        return found

    def start(self, cell: Cell, pairs: int, again: bool) -> int:
        """Return the number of pairs of a cell that already count.

        A finished cell is kept, unless `again`. An unfinished cell of older sources starts from zero.
        """
        found = self.cell(cell)
        finished = len(found["pairs"]) >= pairs
        stale = found["sources"] != sources_of(cell.framework)
        if again or (stale and not finished):
            self.held["cells"].pop(cell.name)
            found = self.cell(cell)
        found.pop("error", None)
        return len(found["pairs"])

    def is_stale(self, cell: Cell) -> bool:
        return bool(self.cell(cell)["sources"] != sources_of(cell.framework))

    def ratios(self, cell: Cell) -> list[float]:
        return [turn["ratio"] for turn in turns_of(self.cell(cell))]

    def add(
        self,
        cell: Cell,
        pair: Pair,
        counted: list[Ratio],
        loop_environment: tuple[tuple[str, str], ...],
    ) -> None:
        """Save a pair, with those of its ratios that count."""
        found, adapter, loop = self.cell(cell), pair.sides[ADAPTER], pair.sides[LOOP]
        environment = os.environ | dict(loop_environment)
        of_settings = differences(cell.framework, adapter.settings, loop.settings, environment)
        found |= {
            "assay": adapter.program,
            "versions": {ADAPTER: adapter.version, LOOP: loop.version},
            "parameters": adapter.parameters,
            "inputs": adapter.inputs,
            "settings": [asdict(setting) for setting in of_settings],
        }
        turns = [
            {
                "ratio": ratio.value,
                "adapter_seconds": ratio.adapter_seconds,
                "loop_seconds": ratio.loop_seconds,
                "flags": [*ratio.flags],
            }
            for ratio in counted
        ]
        found["pairs"].append({"first": order_of(len(found["pairs"]))[0], "turns": turns})
        self.write()

    def make_again(self, cell: Cell) -> None:
        self.cell(cell)["made_again"] += 1
        self.write()

    def fail(self, cell: Cell, reason: str) -> None:
        self.cell(cell)["error"] = reason
        self.write()

    def settings(self) -> list[Setting]:
        """Return each difference between an adapter and its framework's defaults once."""
        found = [Setting(**one) for cell in self.held["cells"].values() for one in cell.get("settings", [])]
        return [*dict.fromkeys(found)]

    def write(self) -> None:
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self.held, indent=1) + "\n")
        partial.replace(self._path)
