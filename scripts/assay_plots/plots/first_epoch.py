"""The first epoch, with compilation, against the mean of the later ones."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, SECONDS, LeftOut, Panel, Plot, Row, bars_height, most, tips, values
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown, significant

KINDS = ("first epoch", "later epochs, mean")
COLOURS = ("#d55e00", "#0072b2")


def both(cell: Cell) -> tuple[float, float] | None:
    first, later = cell.value("first_epoch_time"), cell.value("epoch_time")
    return (first, later) if first is not None and later else None


def panel(group: Group) -> Panel:
    points: list[Row] = []
    spans: list[Row] = []
    for cell in group.in_rank:
        pair = both(cell)
        if pair is None:
            continue
        for kind, seconds in zip(KINDS, pair, strict=True):
            points.append(
                {
                    "series": cell.series,
                    "kind": kind,
                    "seconds": seconds,
                    "text": shown(seconds, "duration", "s"),
                }
            )
        label = f"{significant(cell.first_epoch_ratio or 0.0)}×"
        spans.append({"series": cell.series, "low": min(pair), "high": max(pair), "label": label})
    y = alt.Y("series:N", sort=[row["series"] for row in spans], title=None)
    top = max(row["high"] for row in spans)
    x = alt.X(
        "seconds:Q",
        scale=alt.Scale(domain=[0, top * 1.2], nice=False),
        axis=alt.Axis(labelExpr=SECONDS, tickCount=5, title="time of an epoch"),
    )
    hue = alt.Color("kind:N", scale=alt.Scale(domain=list(KINDS), range=list(COLOURS)), legend=BOTTOM)
    form = alt.Shape(
        "kind:N", scale=alt.Scale(domain=list(KINDS), range=["diamond", "circle"]), legend=BOTTOM
    )
    span = alt.Chart(values(spans))
    rule = span.mark_rule(strokeWidth=2, opacity=0.5).encode(y=y, x=alt.X("low:Q"), x2="high:Q")
    label = span.mark_text(align="left", dx=10).encode(y=y, x="high:Q", text="label:N")
    about = tips(("series", "backend, mode"), ("kind", ""), ("text", "time"))
    dots = alt.Chart(values(points)).mark_point(filled=True, size=90, opacity=1)
    return Panel(
        group.heading,
        alt.layer(rule, dots.encode(y=y, x=x, color=hue, shape=form, tooltip=about), label).properties(
            height=bars_height(len(spans))
        ),
    )


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [g for g in study.networks if any(both(cell) for cell in g.cells)]
    if not groups:
        raise LeftOut("no cell was trained for two epochs or more: use assay run --epochs N")
    kept, note = most(groups, lambda g: len(g.cells), "comparison")
    return [panel(group) for group in kept], note


PLOT = Plot(
    "first_epoch",
    "First epoch against later ones",
    "The first epoch of a cold start includes compilation; the number is how many times as long as a later"
    " one it took.",
    draw,
)
