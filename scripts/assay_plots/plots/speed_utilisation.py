"""Speed, and how busy the processor and the GPU were, and what energy it took."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    Chart,
    LeftOut,
    Panel,
    Plot,
    Row,
    bars_height,
    colour,
    most,
    published_marks,
    tips,
    values,
)
from assay_plots.report import Group, Study
from assay_plots.theme import PUBLISHED

SPEED = "samples_per_second"
SHARES = ("cpu_utilisation", "gpu_utilisation")
OF_ONE = (*SHARES, "peak_share")
BESIDE = (*OF_ONE, "energy_per_sample")


def rows_of(study: Study, group: Group, metric: str) -> tuple[list[Row], list[Row]]:
    rows: list[Row] = []
    marks: list[Row] = []
    for cell in group.in_rank:
        found = cell.metrics.get(metric)
        if found is None or cell.value(SPEED) is None:
            continue
        rows.append({"series": cell.series, "value": found.value, "text": found.text})
        marks += published_marks(study, cell, metric)
    return rows, marks


def side(study: Study, group: Group, metric: str) -> Chart | None:
    rows, marks = rows_of(study, group, metric)
    if not rows:
        return None
    order = [cell.series for cell in group.in_rank if cell.value(SPEED) is not None]
    y = alt.Y("series:N", sort=order, title=None)
    row = study.metrics[metric]
    axis = alt.Axis(format=".0%", tickCount=4) if metric in OF_ONE else alt.Axis(labelExpr=PLAIN, tickCount=4)
    x = alt.X("value:Q", title=row.heading, axis=axis, scale=alt.Scale(zero=True))
    about = tips(("series", "backend, mode"), ("text", row.heading))
    bars = alt.Chart(values(rows)).mark_bar(height=16)
    layers = [bars.encode(y=y, x=x, color=colour(study, rows, legend=False), tooltip=about)]
    if marks:
        diamonds = alt.Chart(values(marks)).mark_point(shape="diamond", size=100, fill=PUBLISHED, opacity=1)
        said = tips(("text", "published"), ("source", "by"))
        layers.append(diamonds.encode(y=y, x="published:Q", tooltip=said))
    return alt.layer(*layers).properties(height=bars_height(len(order)))


def panels_of(study: Study, group: Group) -> list[Panel]:
    out: list[Panel] = []
    for metric in (SPEED, *BESIDE):
        chart = side(study, group, metric)
        if chart is not None:
            out.append(Panel(group.heading.of(study.metrics[metric].heading), chart))
    return out


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [
        group
        for group in study.networks
        if any(cell.value(SPEED) is not None and cell.value(share) is not None
               for cell in group.cells for share in SHARES)
    ]  # fmt: skip
    if not groups:
        raise LeftOut("no network was timed with samples of the processor or a GPU")
    kept, note = most(groups, lambda group: len(group.cells), "comparison", limit=6)
    return [panel for group in kept for panel in panels_of(study, group)], note


PLOT = Plot(
    "speed_utilisation",
    "Speed with utilisation",
    "Below the speed of each backend stands the share of its CPU threads, and of a GPU, that it kept busy; "
    "then the share of what the machine's fastest matrix product reached, and a GPU's energy. A slow backend "
    "with an idle processor waits; a slow one with a busy processor computes more.",
    draw,
)
