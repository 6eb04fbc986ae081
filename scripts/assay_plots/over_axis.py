"""Cells that differ in one axis, and in nothing else but the contestant: the backend and its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay_plots.report import Cell, Heading, Study
from assay_plots.text import plural

# The axes that Cell.series names: the backend, and those that Cell.mode has words of.
CONTESTANT = ("backend", "mode", "layout", "recompute", "compile_cache", "allocator")
# What may differ with an axis: chosen for a workload, needed by sparse gradients, or only for a loader.
_WITH = {"workload": ("batch", "dataset", "optimizer"), "embedding-gradient": ("optimizer",)}
_WITH |= {"loader": ("loader-threads",)}
OWN = "the network's own"
# The value of a cell that does not name the axis.
WITHOUT = {"embedding-gradient": "dense", "initial": "workload", "pixels": "scaled", "recompute": "none"}
WITHOUT |= {"running-accuracy": "false"}
WITHOUT |= {"ranks": "1"}
WITHOUT |= dict.fromkeys(("schedule", "augmentation", "epsilon", "norm-momentum", "sequence-length"), OWN)


@dataclass(frozen=True, slots=True)
class Sweep:
    """Cells over an axis."""

    axis: str
    heading: Heading
    cells: tuple[Cell, ...]

    def values(self) -> list[str]:
        """Give the values of the axis in their order: numbers by size, words as they come."""
        return in_order(axis_value(cell, self.axis) for cell in self.cells)


def axis_value(cell: Cell, axis: str) -> str:
    """Return the value of an axis; epochs and steps are parts of the measure."""
    if axis in ("epochs", "steps"):
        kind, _, count = cell.axes["measure"].partition(":")
        return count if kind == axis else ""
    return str(cell.axes.get(axis) or cell.variant.get(axis, WITHOUT.get(axis, "")))


def in_order(found: Iterable[str]) -> list[str]:
    """Sort numbers by size, and keep words in their order."""
    values = list(dict.fromkeys(found))
    try:
        return sorted(values, key=float)
    except ValueError:
        return values


def _rest(cell: Cell, axis: str) -> tuple[tuple[str, str], ...]:
    without = {*CONTESTANT, "measure" if axis == "epochs" else axis}
    without |= set(_WITH.get(axis, ()))
    found = {key: value for key, value in (cell.axes | cell.variant).items() if key not in without}
    return (*sorted(found.items()), ("report", str(cell.report)))


def _heading(study: Study, axis: str, cells: Sequence[Cell]) -> Heading:
    first = cells[0]
    if axis == "workload":
        a = first.axes
        return Heading(
            f"{a['task']} over networks",
            f"{a['precision']}, {a['device']}, {plural(int(a['threads']), 'thread')}",
        )
    families = dict.fromkeys(study.families[study.groups[cell.group].family].heading for cell in cells)
    others = [set(family.about.split(", ")) for family in families]
    about = [part for part in next(iter(families)).about.split(", ") if all(part in one for one in others)]
    if first.axes.get("size"):
        about.insert(0, f"size {first.axes['size']}")
    return Heading(f"{next(iter(families)).title} over {axis.replace('_', ' ')}", ", ".join(about))


def sweeps(study: Study, axis: str, has: Callable[[Cell], bool], *, ops: bool = False) -> list[Sweep]:
    """Find the cells with a number that differ in the axis: two values or more. `ops`: also operators."""
    found: dict[tuple[tuple[str, str], ...], list[Cell]] = {}
    for cell in study.cells:
        if (ops or not cell.is_op) and axis_value(cell, axis) != "" and has(cell):
            found.setdefault(_rest(cell, axis), []).append(cell)
    return [
        Sweep(axis, _heading(study, axis, cells), tuple(cells))
        for cells in found.values()
        if len({axis_value(cell, axis) for cell in cells}) > 1
    ]
