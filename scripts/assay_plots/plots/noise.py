"""The scatter of a cell's repeats, which a meaningful difference must exceed."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, MAX_ROWS, LeftOut, Panel, Plot, Row, bars_height, most, tips, values
from assay_plots.report import Cell, Heading, Item, Study
from assay_plots.text import shown

CLEAN, DISTURBED = "clean", "disturbed"


def timed_forks(cell: Cell) -> list[Item]:
    return [fork for fork in cell.forks if fork.off is not None]


def name_of(cell: Cell) -> str:
    return f"{cell.series} {cell.axes['size']}".strip() if cell.is_op else cell.series


def rows_of(cell: Cell) -> list[Row]:
    return [
        {
            "cell": name_of(cell),
            "round": fork.round,
            "off": fork.off,
            "low": fork.off_low,
            "high": fork.off_high,
        }
        | {"quality": CLEAN if fork.clean else DISTURBED, "flags": ", ".join(fork.flags) or "clean"}
        | {"text": shown(fork.step_seconds, "duration", "s")}
        for fork in timed_forks(cell)
    ]


def spread(cell: Cell) -> float:
    return cell.spread or 0.0


def panel(title: Heading, cells: list[Cell]) -> Panel:
    cells, _ = most(cells, spread, "cell", limit=MAX_ROWS)
    rows = [row for cell in cells for row in rows_of(cell)]
    y = alt.Y("cell:N", sort=[name_of(cell) for cell in cells], title=None)
    x = alt.X("off:Q", title="off the cell's median", axis=alt.Axis(format="+.1~%", tickCount=6))
    base = alt.Chart(values(rows))
    hue = alt.Color(
        "quality:N", scale=alt.Scale(domain=[CLEAN, DISTURBED], range=["#0072b2", "#d55e00"]), legend=BOTTOM
    )
    form = alt.Shape(
        "quality:N", scale=alt.Scale(domain=[CLEAN, DISTURBED], range=["circle", "cross"]), legend=BOTTOM
    )
    about = tips(("cell", "cell"), ("round", "round"), ("text", "time a step"), ("flags", "quality"))
    blocks = base.mark_rule(opacity=0.25, strokeWidth=3).encode(
        y=y, x=alt.X("low:Q", title=None), x2="high:Q", color=hue
    )
    points = base.mark_point(filled=True, size=55, opacity=0.85).encode(
        y=y, x=x, color=hue, shape=form, tooltip=about
    )
    return Panel(title, alt.layer(blocks, points).properties(height=bars_height(len(cells)) * 3 // 4 + 10))


def draw(study: Study) -> tuple[list[Panel], str]:
    panels: dict[Heading, list[Cell]] = {}

    for group in study.groups:
        for cell in group.cells:
            if len(timed_forks(cell)) > 1:
                panels.setdefault(group.heading, []).append(cell)
    if not panels:
        raise LeftOut("no cell has two forks or more: use assay run --forks 6, which also gives intervals")
    kept, note = most(list(panels.items()), lambda item: max(spread(cell) for cell in item[1]), "comparison")
    if any(len(cells) > MAX_ROWS for _, cells in kept):
        note = f"With more than {MAX_ROWS} cells only those with the largest spread are drawn. {note}"
    return [panel(title, cells) for title, cells in kept], note


PLOT = Plot(
    "noise",
    "Noise of each cell",
    "Each point is one fork (a fresh process); the line through it is the middle 80 % of its blocks. A "
    "difference between two backends that is smaller than this scatter means nothing. Crosses are forks "
    "of rounds in which other processes used the processors; they do not count.",
    draw,
)
