"""Where the time of a step goes, by operator."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, LeftOut, Panel, Plot, Row, bars_height, most, tips, values
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown
from assay_plots.theme import SERIES

LARGEST = len(SERIES) - 1  # ops with a colour of their own
REST = "all others"


def largest_ops(cells: list[Cell]) -> list[str]:
    """Choose the ops that take the most of any cell."""
    share: dict[str, float] = {}
    for cell in cells:
        whole = sum(one.seconds or 0.0 for one in cell.operators) or 1.0
        for one in cell.operators:
            share[one.op] = max(share.get(one.op, 0.0), (one.seconds or 0.0) / whole)
    return sorted(share, key=lambda op: (-share[op], op))[:LARGEST]


def rows_of(cell: Cell, ops: list[str]) -> list[Row]:
    times = dict.fromkeys((*ops, REST), 0.0)
    for one in cell.operators:
        times[one.op if one.op in times else REST] += one.seconds or 0.0
    return [
        {
            "series": cell.series,
            "op": op,
            "seconds": seconds,
            "order": i,
            "text": shown(seconds, "duration", "s"),
        }
        for i, (op, seconds) in enumerate(times.items())
        if seconds > 0
    ]


def panel(group: Group, cells: list[Cell]) -> Panel:
    ops = largest_ops(cells)
    rows = [row for cell in cells for row in rows_of(cell, ops)]
    names = [op for op in (*ops, REST) if any(row["op"] == op for row in rows)]
    y = alt.Y("series:N", sort=[cell.series for cell in cells], title=None)
    x = alt.X("seconds:Q", stack="zero", title="time of a step, by operator", axis=alt.Axis(format="~s"))
    hue = alt.Color("op:N", scale=alt.Scale(domain=names, range=list(SERIES[: len(names)])), legend=BOTTOM)
    about = tips(("series", "backend, mode"), ("op", "op"), ("text", "time a step"))
    bars = alt.Chart(values(rows)).mark_bar(height=18)
    chart = bars.encode(y=y, x=x, color=hue, order="order:Q", tooltip=about)
    return Panel(group.heading, chart.properties(height=bars_height(len(cells))))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [(group, [c for c in group.in_rank if c.operators]) for group in study.networks]
    groups = [(group, cells) for group, cells in groups if cells]
    if not groups:
        raise LeftOut("no operator was timed: assay run --profile does that, of backends that can")
    kept, note = most(groups, lambda pair: len(pair[1]), "comparison")
    return [panel(group, cells) for group, cells in kept], note


PLOT = Plot(
    "profile",
    "Time by operator",
    "The step of each backend as the sum of its operators, the median over forks of each. Timing operators "
    "one by one slows a step, so these cells are not ranked.",
    draw,
)
