"""The cells that a backend refuses, by the rules in its backend.json (docs/reference/protocol.md).

The conductor reads the same rules, so a dry run reports what the worker would.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .cell import Cell
from .errors import Unsupported
from .program import Program

Rule = dict[str, Any]
AXES = {
    "tasks": "task",
    "devices": "device",
    "modes": "mode",
    "precisions": "precision",
    "layouts": "layout",
    "loaders": "loader",
}


def refuse(cell: Cell, program: Program, folder: Path) -> None:
    """Raise Unsupported, with its reason, if the backend.json in that folder refuses the cell."""
    if not program.is_op and (program.packs_inputs or set(program.inference.outputs) != {"logits"}):
        raise Unsupported("[network] this adapter runs networks with one input and the output logits")
    description = json.loads((folder / "backend.json").read_text())
    for known, axis in AXES.items():
        if (value := getattr(cell, axis)) not in description[known]:
            raise Unsupported(f"{axis} {value!r}: {', '.join(description[known])} are known")
    if cell.world > 1 and not description.get("collectives"):
        raise Unsupported("[ranks] its backend.json names no collectives")
    for rule in description.get("refuses", []):
        if holds(rule, cell, program):
            raise Unsupported(rule["reason"])


def holds(rule: Rule, cell: Cell, program: Program) -> bool:
    """Whether all conditions of the rule hold; an absent condition always holds."""
    nodes, optimizer = program.graph(cell.task).nodes, program.update_rule
    lists: dict[str, set[str]] = {
        **{known: {getattr(cell, axis)} for known, axis in AXES.items()},
        "recompute": {cell.recompute},
        "optimizers": {optimizer.kind} if optimizer else set(),
        "ops": {node.op for node in nodes},
    }
    flags: dict[str, Callable[[], bool]] = {
        "single_ops": lambda: program.is_op,
        "row_sparse": lambda: any(node.attributes.get("sparse_gradient", False) for node in nodes),
        "weight_decay": lambda: optimizer is not None and optimizer.weight_decay > 0,
        "encoded_images": lambda: _decodes_images(cell),
        "several_ranks": lambda: cell.world > 1,
    }
    return (
        all(not found.isdisjoint(rule[name]) for name, found in lists.items() if name in rule)
        and not ("other_ops" in rule and lists["ops"].issubset(rule["other_ops"]))
        and all(found() == rule[name] for name, found in flags.items() if name in rule)
    )


def _decodes_images(cell: Cell) -> bool:
    manifest = cell.folder / "data/manifest.json"
    return manifest.exists() and json.loads(manifest.read_text())["kind"] != "array"
