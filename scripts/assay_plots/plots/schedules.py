"""Training loss with and without a schedule of the learning rate, in one picture."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    BOTTOM,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    line_and_points,
    most,
    tips,
    values,
)
from assay_plots.over_axis import Sweep, axis_value, sweeps
from assay_plots.report import Cell, Study
from assay_plots.text import significant
from assay_plots.theme import DASHES

AXIS = "schedule"


def rows_of(cell: Cell) -> list[Row]:
    return [
        {
            "series": cell.series,
            "schedule": axis_value(cell, AXIS),
            "epoch": point.epoch,
            "loss": point.median,
        }
        | {"low": point.low, "high": point.high, "text": significant(point.median, 4)}
        for point in cell.train_loss
    ]


def panel(study: Study, sweep: Sweep) -> Panel:
    rows = [row for cell in sweep.cells for row in rows_of(cell)]
    names = list(dict.fromkeys(row["schedule"] for row in rows))
    x = alt.X("epoch:Q", title="epoch", axis=alt.Axis(format="d", tickMinStep=1, tickCount=8))
    y = alt.Y("loss:Q", title="training loss", scale=alt.Scale(zero=False))
    hue = colour(study, rows)
    dashes = alt.StrokeDash(
        "schedule:N", scale=alt.Scale(domain=names, range=[*DASHES][: len(names)]), legend=BOTTOM
    )
    each = [alt.Detail("schedule:N")]
    base = alt.Chart(values(rows))
    band = base.mark_area(opacity=0.15).encode(
        x=x, y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q", color=hue, detail=each
    )
    about = tips(("series", "backend, mode"), ("schedule", "schedule"), ("epoch", "epoch"), ("text", "loss"))
    drawn = line_and_points(study, rows, about, dashes, x=x, y=y)
    return Panel(sweep.heading, alt.layer(band, *drawn).properties(height=280))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = sweeps(study, AXIS, lambda cell: len(cell.train_loss) > 1)
    if not found:
        raise LeftOut(
            "no network was trained with two schedules: assay run --schedule constant,every:10x0.9 does"
        )
    kept, note = most(found, lambda sweep: len(sweep.cells), "comparison")
    return [panel(study, sweep) for sweep in kept], note


PLOT = Plot(
    "schedules",
    "Loss with and without a schedule",
    "Training loss after each epoch, median and range over forks; dashes mark the schedule of the learning "
    "rate. A line that swings at the end had too high a rate there.",
    draw,
)
