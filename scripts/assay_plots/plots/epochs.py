"""Time of each epoch: the additional cost of the first, and whether the later ones are steady."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    SECONDS,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    dash,
    line_and_points,
    most,
    tips,
    values,
)
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown


def epoch_rows(cell: Cell) -> list[Row]:
    return [
        {"series": cell.series, "epoch": point.epoch, "seconds": point.median}
        | {"low": point.low, "high": point.high, "n": point.n}
        | {"text": shown(point.median, "duration", "s")}
        for point in cell.epoch_time
    ]


def panel(study: Study, group: Group) -> Panel:
    rows = [row for cell in group.cells for row in epoch_rows(cell)]
    x = alt.X("epoch:Q", title="epoch", axis=alt.Axis(format="d", tickMinStep=1, tickCount=8))
    y = alt.Y("seconds:Q", title="time of the epoch", axis=alt.Axis(labelExpr=SECONDS, tickCount=6))
    about = tips(("series", "backend, mode"), ("epoch", "epoch"), ("text", "median time"), ("n", "forks"))
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    band = base.mark_area(opacity=0.18).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=hue)
    drawn = line_and_points(study, rows, about, dash(study, rows), x=x, y=y)
    return Panel(group.heading, alt.layer(band, *drawn).properties(height=260))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [g for g in study.networks if any(len(c.epoch_time) > 1 for c in g.cells)]
    if not groups:
        raise LeftOut("no cell was trained for two epochs or more: use assay run --epochs N")
    kept, note = most(groups, lambda g: len(g.cells), "comparison")
    return [panel(study, group) for group in kept], note


PLOT = Plot(
    "epochs",
    "Time of each epoch",
    "The median over forks, with their whole range as a band. A flat line is a steady machine. "
    "Evaluation is not included; for compilation see the picture of the first epoch.",
    draw,
)
