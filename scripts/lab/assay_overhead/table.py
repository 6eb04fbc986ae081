"""The results as text: a line per cell, and the tables of a page."""

from __future__ import annotations

from statistics import median
from typing import Any

from assay_overhead.results import turns_of
from assay_overhead.settings import KNOWN, Setting
from assay_overhead.verdict import interval, verdict


def in_units(seconds: float) -> str:
    unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("us", 1e6)
    return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"


def ratio_text(ratios: list[float]) -> str:
    bounds = interval(ratios)
    within = f"[{bounds[0]:.3f}, {bounds[1]:.3f}]" if bounds else "no interval"
    return f"{median(ratios):.3f} {within}"


def verdict_text(cell: dict[str, Any], stale: bool) -> str:
    if "error" in cell:
        return f"failed: {cell['error']}"
    found = str(verdict([turn["ratio"] for turn in turns_of(cell)]))
    return f"{found} (of older sources)" if stale else found


def fields(cell: dict[str, Any], stale: bool) -> list[str]:
    """Return adapter, loop, ratio, turns and verdict."""
    turns = turns_of(cell)
    times = [
        in_units(median(turn[f"{side}_seconds"] for turn in turns)) for side in ("adapter", "loop") if turns
    ]
    ratio = ratio_text([turn["ratio"] for turn in turns]) if turns else ""
    counted = f"{len(turns)} of {len(cell['pairs'])}"
    return [*(times or ["", ""]), ratio, counted, verdict_text(cell, stale)]


def line(name: str, cell: dict[str, Any], stale: bool) -> str:
    adapter, loop, ratio, turns, found = fields(cell, stale)
    if not cell["pairs"]:
        return f"{name:<42} {found}"
    again = f", {cell['made_again']} made again" if cell["made_again"] else ""
    return f"{name:<42} {adapter:>9} {loop:>9}  {ratio}  turns: {turns}{again}  {found}"


def rows_of(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [
        f"| {' | '.join(cell.replace(chr(10), ' ').replace('|', '/') for cell in row)} |" for row in lines
    ]


def markdown(cells: list[tuple[dict[str, Any], bool]], settings: list[Setting]) -> str:
    """Make the tables: the cells, and the settings in which adapters differ from the framework's defaults."""
    names = ["framework", "mode", "task", "network", "loader"]
    header = [*names, "adapter", "independent loop", "ratio, interval", "turns of pairs", "verdict"]
    measured = [[*(cell[name] for name in names), *fields(cell, stale)] for cell, stale in cells]
    frameworks = {cell["framework"] for cell, _ in cells}
    known = [setting for setting in (*settings, *KNOWN) if setting.framework in frameworks]
    known.sort(key=lambda setting: setting.framework)
    told = [[one.framework, one.name, one.adapter, one.loop, one.remark] for one in known]
    return "\n".join(
        [
            *rows_of(header, measured),
            "",
            *rows_of(["framework", "setting", "adapter", "independent loop", "remark"], told),
            "",
        ]
    )
