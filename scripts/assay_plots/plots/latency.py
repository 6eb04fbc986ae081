"""How long single calls, or generated tokens, take: from the median to the slowest in a thousand."""

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
    most,
    shape,
    tips,
    values,
    with_interval,
)
from assay_plots.report import Cell, Group, Study

PERCENTILES = ("p50", "p90", "p99", "p99.9")


def generates(cell: Cell) -> bool:
    """Whether its calls are tokens."""
    return bool(cell.axes["task"] == "decode")


def rows_of(cell: Cell) -> list[Row]:
    rows: list[Row] = []
    for name in PERCENTILES:
        metric = cell.metrics.get(f"{'token_time' if generates(cell) else 'latency'}_{name}")
        if metric is None or metric.value <= 0:
            continue
        row = {"series": cell.series, "percentile": name, "seconds": metric.value, "text": metric.text}
        rows.append(row | {"lower": metric.lower, "upper": metric.upper, "n": metric.n})
    return rows


def panel(study: Study, group: Group, rows: list[Row]) -> Panel:
    call = "token" if generates(group.cells[0]) else "call"
    x = alt.X(
        "percentile:N",
        sort=list(PERCENTILES),
        title=f"{call}s that are at most as slow",
        axis=alt.Axis(labelAngle=0),
    )
    y = alt.Y(
        "seconds:Q",
        scale=alt.Scale(type="log", nice=True),
        axis=alt.Axis(labelExpr=SECONDS, tickCount=5, title=f"time of a {call}"),
    )
    about = tips(("series", "backend, mode"), ("percentile", "percentile"), ("text", "time"), ("n", "forks"))
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    line = base.mark_line().encode(x=x, y=y, color=hue, strokeDash=dash(study, rows))
    points = base.mark_point(filled=True, size=60).encode(
        x=x, y=y, color=hue, shape=shape(study, rows), tooltip=about
    )
    spans = with_interval(base)
    whiskers = spans.mark_rule().encode(x=x, y="lower:Q", y2="upper:Q", color=hue)
    return Panel(group.heading, alt.layer(line, whiskers, points).properties(height=260))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = [(group, [row for cell in group.cells for row in rows_of(cell)]) for group in study.networks]
    found = [(group, rows) for group, rows in found if rows]
    if not found:
        raise LeftOut("no calls were timed one by one: assay run --task infer or --task decode does that")
    kept, note = most(found, lambda pair: len(pair[1]), "comparison")
    return [panel(study, group, rows) for group, rows in kept], note


PLOT = Plot(
    "latency",
    "Latency of single calls",
    "The time within which half, 90 %, 99 % and 99.9 % of the calls of a fork are done, the median over "
    "forks; in task decode half and 99 % of the tokens. A flat line is steady; a line that rises to the "
    "right has calls that take far longer than most.",
    draw,
)
