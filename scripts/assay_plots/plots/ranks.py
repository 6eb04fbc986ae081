"""How much faster several ranks are, and what share of their speed is left."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from assay_plots.figure import (
    Chart,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    dash,
    diamonds,
    most,
    ranked,
    shape,
    tips,
    values,
    with_interval,
)
from assay_plots.report import Heading, Item, Study
from assay_plots.text import significant

IDEAL = "#7f7f7f"


def rows_of(study: Study, items: Sequence[Item]) -> list[Row]:
    """A row for each cell with several ranks, and one for the single rank that it is compared with."""
    rows: list[Row] = []
    for item in items:
        cell, base = study.all_cells[item.cell], study.all_cells[item.base]
        alone = {"series": base.series, "ranks": 1, "efficiency": 1.0, "speedup": 1.0, "clean": base.clean}
        alone |= {"lower": None, "upper": None, "faster": None, "slower": None}
        alone |= {"times": "1", "percent": "100 %", "of": f"{base.series}, 1 rank"}
        if not any(row["series"] == base.series for row in rows):
            rows.append(alone)
        ranks, ratio = int(cell.variant["ranks"]), item.efficiency
        row = {
            "series": base.series,
            "ranks": ranks,
            "clean": cell.clean,
            "of": f"{base.series}, {ranks} ranks",
        }
        row |= {"efficiency": ratio.value, "lower": ratio.lower, "upper": ratio.upper}
        row |= {"speedup": ranks * ratio.value}
        row |= {
            key: None if bound is None else ranks * bound
            for key, bound in (("slower", ratio.lower), ("faster", ratio.upper))
        }
        row |= {"times": significant(ranks * ratio.value), "percent": f"{100 * ratio.value:.0f} %"}
        rows.append(row)
    return rows


def marks_of(study: Study, items: Sequence[Item]) -> list[Row]:
    """Give the published efficiencies: ratios of the time of a step to that of one rank."""
    marks: list[Row] = []
    for item in items:
        cell, ranks = study.all_cells[item.cell], int(study.all_cells[item.cell].variant["ranks"])
        for entry in cell.published:
            if entry.metric != "step_time" or entry.other != item.base or not entry.value:
                continue
            efficiency = 1 / entry.value / (1 if item.kind == "weak" else ranks)
            mark: Row = {"ranks": ranks, "efficiency": efficiency, "speedup": ranks * efficiency}
            mark |= {"published": f"{100 * efficiency:.0f} %"}
            marks.append(mark | {"source": entry.said})
    return marks


def chart(
    study: Study, rows: list[Row], marks: list[Row], field: str, title: str, bounds: tuple[str, str]
) -> Chart:
    counts = sorted({row["ranks"] for row in rows})
    axis = alt.Axis(format="%" if field == "efficiency" else "~g")
    x = alt.X("ranks:Q", title="ranks", axis=alt.Axis(values=counts, format="d"), scale=alt.Scale(nice=False))
    y = alt.Y(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(zero=True))
    about = tips(("of", "backend, mode"), ("times", "as fast as one rank"), ("percent", "efficiency"))
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    line = base.mark_line().encode(x=x, y=y, color=hue, strokeDash=dash(study, rows))
    lower, upper = bounds
    rule = (
        with_interval(base, lower, upper)
        .mark_rule()
        .encode(x=x, y=alt.Y(f"{lower}:Q", title=title), y2=f"{upper}:Q", color=hue)
    )
    points = base.mark_point(filled=True, size=60).encode(
        x=x, y=y, color=hue, shape=shape(study, rows), opacity=ranked(), tooltip=about
    )
    ideal = [{"ranks": count, field: 1.0 if field == "efficiency" else count} for count in counts]
    whole = alt.Chart(values(ideal)).mark_line(color=IDEAL, strokeDash=[3, 3], strokeWidth=1.2)
    layers = [whole.encode(x=x, y=y), line, rule, points]
    if marks:
        said = tips(("published", "published efficiency"), ("source", "by"))
        layers.append(diamonds(marks).encode(x=x, y=y, tooltip=said))
    return alt.layer(*layers).properties(height=260)


def panels_of(study: Study, items: Sequence[Item]) -> list[Panel]:
    first = items[0]
    whole = study.groups[study.all_cells[first.base].group].heading
    heading = Heading(f"{whole.title}, {first.kind} scaling", whole.about)
    rows, marks = rows_of(study, items), marks_of(study, items)
    speedup = chart(study, rows, marks, "speedup", "speed over one rank", ("slower", "faster"))
    efficiency = chart(study, rows, marks, "efficiency", "efficiency", ("lower", "upper"))
    return [Panel(heading.of("Speed-up"), speedup), Panel(heading.of("Efficiency"), efficiency)]


def draw(study: Study) -> tuple[list[Panel], str]:
    found: dict[tuple[str, int], list[Item]] = {}
    drawn = {id(cell) for cell in study.cells}
    for item in study.scaling:
        cell, base = study.all_cells[item.cell], study.all_cells[item.base]
        if id(cell) in drawn and id(base) in drawn:
            found.setdefault((item.kind, base.group), []).append(item)
    if not found:
        raise LeftOut(
            "no cell with several ranks has one with a single rank beside it: assay run --ranks 1,2 has both"
        )
    kept, note = most(list(found.values()), len, "comparison", limit=6)
    if any(marks_of(study, items) for items in kept):
        note = f"◆ is what others published. {note}".strip()
    return [panel for items in kept for panel in panels_of(study, items)], note


PLOT = Plot(
    "ranks",
    "Speed-up and efficiency over ranks",
    "The speed of several processes that train one model, over that of one, and the share of the ideal speed "
    "that it is. The grey dotted line is the ideal: N ranks are N times as fast. Speeds are paired within "
    "rounds with the cell of one rank in the same run.",
    draw,
)
