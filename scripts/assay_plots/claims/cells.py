"""Finds the cells of reports that a claim is about, and the other side of a ratio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay_plots.claims.catalogue import Axes
from assay_plots.over_axis import axis_value
from assay_plots.report import Cell

# A framework chooses it, so it may differ between two sides.
_FREE = frozenset({"layout"})


def value_of(cell: Cell, axis: str) -> str:
    """Return the value of an axis by its name in a config."""
    return cell.axes.get(axis.replace("-", "_")) or axis_value(cell, axis)


def _same(have: str, wanted: str) -> bool:
    if have == wanted:
        return True
    try:
        return float(have) == float(wanted)
    except ValueError:
        return False


def has(cell: Cell, axes: Axes) -> bool:
    """Whether the cell has one of the values of each axis."""
    return all(any(_same(value_of(cell, axis), one) for one in wanted) for axis, wanted in axes.items())


def _identity(cell: Cell, without: Sequence[str]) -> Mapping[str, str]:
    keys = {axis.replace("-", "_") for axis in without}
    if keys & {"epochs", "steps"}:
        keys.add("measure")
    axes = {key: value for key, value in cell.axes.items() if key not in keys and key not in _FREE}
    return axes | {key: value for key, value in cell.variant.items() if key not in without}


def other_side(cell: Cell, to: Axes, cells: Sequence[Cell]) -> Cell | None:
    """Find the cell of the same report that differs in `to` only: rounds are paired within a run."""
    same = _identity(cell, tuple(to))
    found = [
        one
        for one in cells
        if one is not cell
        and one.report == cell.report
        and has(one, to)
        and _identity(one, tuple(to)) == same
        and ("layout" not in to or has(one, {"layout": to["layout"]}))
    ]
    found.sort(key=lambda one: one.status != "ok")
    return found[0] if found else None
