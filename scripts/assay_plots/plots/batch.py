"""How throughput grows with the batch."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    dash,
    diamonds,
    most,
    published_marks,
    ranked,
    shape,
    tips,
    values,
    with_interval,
)
from assay_plots.report import Cell, Heading, Study

METRIC = "samples_per_second"


def point(cell: Cell) -> Row:
    metric = cell.metrics[METRIC]
    return {
        "series": cell.series,
        "batch": cell.batch,
        "rate": metric.value,
        "lower": metric.lower,
        "upper": metric.upper,
        "text": metric.text,
        "clean": cell.clean,
    }


def marks_of(study: Study, cell: Cell) -> list[Row]:
    return [mark | {"batch": cell.batch} for mark in published_marks(study, cell, METRIC)]


def panel(study: Study, title: Heading, cells: list[Cell]) -> Panel:
    rows = sorted((point(cell) for cell in cells), key=lambda row: int(row["batch"]))
    batches = sorted({int(row["batch"]) for row in rows})
    x = alt.X(
        "batch:Q",
        title="batch (samples a step)",
        scale=alt.Scale(type="log", base=2, nice=False, padding=14),
        axis=alt.Axis(format="d", values=batches if len(batches) <= 12 else alt.Undefined),
    )
    y = alt.Y("rate:Q", title="samples per second", axis=alt.Axis(labelExpr=PLAIN, tickCount=6))
    about = tips(("series", "backend, mode"), ("batch", "batch"), ("text", "samples/s"))
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    line = base.mark_line().encode(x=x, y=y, color=hue, strokeDash=dash(study, rows))
    spans = with_interval(base)
    whiskers = spans.mark_rule().encode(x=x, y=alt.Y("lower:Q"), y2="upper:Q", color=hue)
    points = base.mark_point(filled=True, size=60).encode(
        x=x,
        y=y,
        color=hue,
        shape=shape(study, rows),
        opacity=ranked(),
        tooltip=about,
    )
    layers = [line, whiskers, points]
    if marks := [mark for cell in cells for mark in marks_of(study, cell)]:
        said = tips(("series", "backend, mode"), ("text", "published"), ("source", "by"))
        layers.append(diamonds(marks).encode(x=x, y="published:Q", tooltip=said))
    return Panel(title, alt.layer(*layers).properties(height=280))


def draw(study: Study) -> tuple[list[Panel], str]:
    families = [
        (
            family.heading,
            [
                cell
                for group in family.groups
                for cell in study.groups[group].cells
                if (cell.value(METRIC) or 0) > 0 and cell.batch > 0
            ],
        )
        for family in study.families
        if not family.is_op
    ]
    several = [(title, cells) for title, cells in families if len({cell.batch for cell in cells}) > 1]
    if not several:
        raise LeftOut("each network ran with only one batch size: use assay run --batch 32,64,128")
    kept, note = most(several, lambda item: len(item[1]), "comparison")
    if any(marks_of(study, cell) for _, cells in kept for cell in cells):
        note = f"◆ is what others published. {note}".strip()
    return [panel(study, title, cells) for title, cells in kept], note


PLOT = Plot(
    "batch",
    "Throughput against batch size",
    "Where a line is flat, a larger batch gains nothing; where it rises, the cost of starting operators "
    "still dominates. Pale points are not ranked.",
    draw,
)
