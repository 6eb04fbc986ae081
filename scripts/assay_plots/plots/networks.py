"""Bars of networks by backend, forward and backward."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    most,
    offset,
    published_marks,
    ranked,
    shape,
    tips,
    values,
    with_interval,
)
from assay_plots.over_axis import Sweep, sweeps
from assay_plots.report import Study
from assay_plots.theme import PUBLISHED

METRIC = "samples_per_second"


def panel(study: Study, sweep: Sweep) -> Panel:
    rows: list[Row] = []
    marks: list[Row] = []
    for cell in sweep.cells:
        metric = cell.metrics[METRIC]
        row = {"series": cell.series, "network": f"{cell.axes['workload']} b{cell.axes['batch']}"}
        rows.append(row | {"rate": metric.value, "text": metric.text, "clean": cell.clean})
        rows[-1] |= {"lower": metric.lower, "upper": metric.upper}
        marks += [row | mark for mark in published_marks(study, cell, METRIC) if mark["published"] > 0]
    order = list(dict.fromkeys(row["network"] for row in rows))
    x = alt.X("network:N", sort=order, title=None, axis=alt.Axis(labelAngle=0))
    within = offset(study, rows)
    y = alt.Y(
        "rate:Q",
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(labelExpr=PLAIN, tickCount=5, title="samples per second"),
    )
    about = tips(("network", "network"), ("series", "backend, mode"), ("text", "samples/s"))
    base = alt.Chart(values(rows))
    points = base.mark_point(filled=True, size=80).encode(
        x=x,
        xOffset=within,
        y=y,
        color=colour(study, rows),
        shape=shape(study, rows),
        opacity=ranked(),
        tooltip=about,
    )
    spans = with_interval(base)
    layers = [points, spans.mark_rule(strokeWidth=2).encode(x=x, xOffset=within, y="lower:Q", y2="upper:Q")]
    if marks:
        diamonds = alt.Chart(values(marks)).mark_point(shape="diamond", size=90, fill=PUBLISHED, opacity=1)
        said = tips(("text", "published"), ("source", "by"))
        layers.append(diamonds.encode(x=x, xOffset=within, y="published:Q", tooltip=said))
    return Panel(sweep.heading, alt.layer(*layers).properties(height=280))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = sweeps(study, "workload", lambda cell: (cell.value(METRIC) or 0) > 0)
    if not found:
        raise LeftOut(
            "only one network was timed under each setting: assay run --workload mlp,lenet5 has two"
        )
    kept, note = most(found, lambda sweep: len(sweep.cells), "comparison")
    return [panel(study, sweep) for sweep in kept], note


PLOT = Plot(
    "networks",
    "Networks by backend",
    "Throughput of every network on every backend in one picture; higher is faster. The axis is logarithmic, "
    "because networks differ widely, so equal distances are equal ratios.",
    draw,
)
