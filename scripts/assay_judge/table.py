"""The results as text: a line per cell, and the tables of a page."""

from __future__ import annotations

from statistics import median
from typing import Any

from assay_judge.settings import KNOWN, Setting
from assay_judge.verdict import interval, verdict


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
    found = str(verdict([pair["ratio"] for pair in cell["pairs"]]))
    return f"{found} (of older sources)" if stale else found


def fields(cell: dict[str, Any], stale: bool) -> list[str]:
    """Return adapter, loop, ratio, pairs and verdict."""
    pairs = cell["pairs"]
    times = [
        in_units(median(pair[f"{side}_seconds"] for pair in pairs)) for side in ("adapter", "loop") if pairs
    ]
    ratio = ratio_text([pair["ratio"] for pair in pairs]) if pairs else ""
    return [*(times or ["", ""]), ratio, str(len(pairs)), verdict_text(cell, stale)]


def line(name: str, cell: dict[str, Any], stale: bool) -> str:
    adapter, loop, ratio, pairs, found = fields(cell, stale)
    if not cell["pairs"]:
        return f"{name:<42} {found}"
    again = f", {cell['made_again']} made again" if cell["made_again"] else ""
    return f"{name:<42} {adapter:>9} {loop:>9}  {ratio}  {pairs} pairs{again}  {found}"


def rows_of(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [
        f"| {' | '.join(cell.replace(chr(10), ' ').replace('|', '/') for cell in row)} |" for row in lines
    ]


def markdown(cells: list[tuple[dict[str, Any], bool]], settings: list[Setting]) -> str:
    """Make the tables: the cells, and the settings in which adapters differ from the framework's defaults."""
    names = ["framework", "mode", "task", "network", "loader"]
    header = [*names, "adapter", "independent loop", "ratio, interval", "pairs", "verdict"]
    judged = [[*(cell[name] for name in names), *fields(cell, stale)] for cell, stale in cells]
    frameworks = {cell["framework"] for cell, _ in cells}
    known = [setting for setting in (*settings, *KNOWN) if setting.framework in frameworks]
    known.sort(key=lambda setting: setting.framework)
    told = [[one.framework, one.name, one.adapter, one.loop, one.remark] for one in known]
    return "\n".join(
        [
            *rows_of(header, judged),
            "",
            *rows_of(["framework", "setting", "adapter", "independent loop", "remark"], told),
            "",
        ]
    )
