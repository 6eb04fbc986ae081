"""How long prompts take and how many tokens follow in a second, in task decode."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    SECONDS,
    Chart,
    LeftOut,
    Panel,
    Plot,
    Row,
    bars_across,
    bars_height,
    colour,
    most,
    tips,
    values,
)
from assay_plots.report import Cell, Group, Study

# Metric, the title of its axis, and how its ticks are written.
MEASURES = (
    ("prefill_time", "time of a prompt", SECONDS),
    ("tokens_per_second", "tokens per second", PLAIN),
)


def rows_of(cells: list[Cell], name: str) -> list[Row]:
    rows: list[Row] = []
    for cell in cells:
        metric = cell.metrics.get(name)
        if metric is None or metric.value <= 0:
            continue
        row = {
            "series": cell.series,
            "measure": name,
            "value": metric.value,
            "text": metric.text,
            "n": metric.n,
        }
        rows.append(row | {"lower": metric.lower, "upper": metric.upper})
    return rows


def bars(study: Study, rows: list[Row], title: str, ticks: str) -> Chart:
    x = alt.X("value:Q", axis=alt.Axis(labelExpr=ticks, tickCount=4, title=title))
    y = alt.Y("series:N", sort=[row["series"] for row in rows], title=None)
    about = tips(("series", "backend, mode"), ("text", title), ("n", "forks"))
    drawn = bars_across(alt.Chart(values(rows)), y, x, colour(study, rows, legend=False), about)
    return alt.layer(*drawn).properties(height=bars_height(len(rows)))


def panels_of(study: Study, group: Group) -> list[Panel]:
    cells = [cell for cell in group.cells if cell.axes["task"] == "decode"]
    found = [(title, ticks, rows_of(cells, name)) for name, title, ticks in MEASURES]
    charts = [bars(study, rows, title, ticks) for title, ticks, rows in found if rows]
    return [Panel(group.heading, chart) for chart in charts]


def draw(study: Study) -> tuple[list[Panel], str]:
    found = [(group, panels_of(study, group)) for group in study.networks]
    found = [(group, panels) for group, panels in found if panels]
    if not found:
        raise LeftOut("no tokens were generated: assay run --task decode does that")
    kept, note = most(found, lambda pair: len(pair[0].cells), "comparison")
    return [panel for _, panels in kept for panel in panels], note


PLOT = Plot(
    "decoding",
    "Prompts and tokens",
    "Task decode: above the time of a prompt of each sample (shorter is faster), and below the tokens of all "
    "samples after the prompts, per second (longer is faster). The line through a bar's end is the interval "
    "of the median (with at least six forks).",
    draw,
)
