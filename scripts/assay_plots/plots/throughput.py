"""Samples per second of each backend and mode, with intervals, and numbers that others published."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    LeftOut,
    Panel,
    Plot,
    Row,
    bars_height,
    colour,
    most,
    ranked,
    tips,
    values,
    with_interval,
)
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown
from assay_plots.theme import PUBLISHED

METRIC = "samples_per_second"


def quality(cell: Cell) -> str:
    return ", ".join(cell.flags) or ("clean" if cell.clean else "not checked")


def panel(study: Study, group: Group) -> Panel:
    timed = [cell for cell in group.in_rank if cell.value(METRIC) is not None]
    rows: list[Row] = []
    marks: list[Row] = []
    for cell in timed:
        metric = cell.metrics[METRIC]
        bounds = {"lower": metric.lower, "upper": metric.upper, "end": metric.upper or metric.value}
        rows.append(
            {
                "series": cell.series,
                "value": metric.value,
                "text": metric.text,
                "label": shown(metric.value, metric.hint, metric.unit)
                + ("" if cell.clean else ", not ranked"),
                "n": metric.n,
            }
            | bounds
            | {"clean": cell.clean, "quality": quality(cell)}
        )
        for published in cell.published:
            rate = published.samples_per_second
            if rate is not None:
                marks.append(
                    {
                        "series": cell.series,
                        "rate": rate,
                        "source": published.said,
                        "text": shown(rate, metric.hint, metric.unit),
                    }
                )
    order = [row["series"] for row in rows]
    for row in rows:  # a label comes after a mark that would cover it
        rates = [mark["rate"] for mark in marks if mark["series"] == row["series"]]
        row["end"] = max([row["end"], *(rate for rate in rates if row["end"] < rate < 2 * row["end"])])
    top = max([row["end"] for row in rows] + [mark["rate"] for mark in marks])
    y = alt.Y("series:N", sort=order, title=None)
    x = alt.X(
        "value:Q",
        title="samples per second",
        scale=alt.Scale(domain=[0, top * 1.35], nice=False),
        axis=alt.Axis(labelExpr=PLAIN, tickCount=5, title="samples per second"),
    )
    about = tips(("series", "backend, mode"), ("text", "samples/s"), ("n", "forks"), ("quality", "quality"))
    base = alt.Chart(values(rows))
    bars = base.mark_bar(height=16).encode(
        y=y,
        x=x,
        color=colour(study, rows, legend=False),
        opacity=ranked(0.4),
        tooltip=about,
    )
    spans = with_interval(base)
    whiskers = spans.mark_rule(strokeWidth=2).encode(y=y, x="lower:Q", x2="upper:Q", tooltip=about)
    labels = base.mark_text(align="left", dx=6).encode(y=y, x="end:Q", text="label:N")
    layers: list[alt.Chart] = [bars, whiskers, labels]
    if marks:
        layers.append(
            alt.Chart(values(marks))
            .mark_point(shape="diamond", size=100, fill=PUBLISHED, stroke="white", strokeWidth=1.3, opacity=1)
            .encode(y=y, x="rate:Q", tooltip=tips(("text", "published, samples/s"), ("source", "by")))
        )
    return Panel(group.heading, alt.layer(*layers).properties(height=bars_height(len(rows))))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [g for g in study.networks if any(cell.value(METRIC) is not None for cell in g.cells)]
    if not groups:
        raise LeftOut("no network was timed in this report")
    kept, note = most(groups, lambda g: sum(cell.value(METRIC) is not None for cell in g.cells), "comparison")
    panels = [panel(study, group) for group in kept]
    if any(p.value is not None for g in kept for cell in g.cells for p in cell.published):
        note = f"◆ is a number that others published, for their machine and versions. {note}"
    return panels, note


PLOT = Plot(
    "throughput",
    "Throughput",
    "Samples per second of each backend and mode on the same network from the same initial state; longer "
    "is faster. The line through a bar's end is the interval of the median (with at least six forks). A pale "
    "bar was disturbed or not checked, and is not ranked.",
    draw,
)
