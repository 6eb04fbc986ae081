"""Time of single operators against their dimension on linear axes, as studies draw it: a line and a band."""

from __future__ import annotations

import re

import altair as alt

from assay_plots.figure import (
    BOTTOM,
    SECONDS,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    diamonds,
    line_and_points,
    most,
    published_marks,
    tips,
    values,
)
from assay_plots.report import Cell, Heading, Study
from assay_plots.text import shown
from assay_plots.theme import DASHES

FEWEST = 3  # sizes that make a line


def dimension(cell: Cell) -> int | None:
    """Return the only number of a size: 4096, m512; nothing of one with several."""
    found = re.fullmatch(r"[a-z]*(\d+)", cell.axes["size"])
    return int(found[1]) if found else None


def row_of(cell: Cell) -> Row | None:
    seconds = [fork.step_seconds for fork in cell.counted_forks() if fork.step_seconds is not None]
    at, median = dimension(cell), cell.value("step_time")
    if at is None or median is None or not seconds:
        return None
    row = {"series": cell.series, "device": cell.axes["device"], "dimension": at, "seconds": median}
    return row | {"low": min(seconds), "high": max(seconds), "text": shown(median, "duration", "s")}


def panel(study: Study, title: Heading, rows: list[Row], marks: list[Row]) -> Panel:
    devices = list(dict.fromkeys(row["device"] for row in rows))
    x = alt.X("dimension:Q", title="dimension", axis=alt.Axis(format="~s", tickCount=6))
    y = alt.Y("seconds:Q", title="time a step", axis=alt.Axis(labelExpr=SECONDS, tickCount=5))
    hue = colour(study, rows)
    dashes = alt.StrokeDash(
        "device:N", scale=alt.Scale(domain=devices, range=[*DASHES][: len(devices)]), legend=BOTTOM
    )
    base = alt.Chart(values(rows))
    band = base.mark_area(opacity=0.18).encode(
        x=x, y=alt.Y("low:Q"), y2="high:Q", color=hue, detail=[alt.Detail("device:N")]
    )
    about = tips(
        ("series", "backend, mode"), ("device", "device"), ("dimension", "dimension"), ("text", "time")
    )
    layers = [band, *line_and_points(study, rows, about, dashes, x=x, y=y)]
    if marks:
        said = tips(("series", "backend, mode"), ("text", "published"), ("source", "by"))
        layers.append(diamonds(marks).encode(x=x, y="published:Q", tooltip=said))
    return Panel(title, alt.layer(*layers).properties(height=240))


def draw(study: Study) -> tuple[list[Panel], str]:
    found: dict[tuple[str, str, str], list[Row]] = {}
    marks: dict[tuple[str, str, str], list[Row]] = {}
    for cell in study.cells:
        if cell.is_op and (row := row_of(cell)):
            key = (cell.axes["workload"], cell.axes["task"], cell.axes["precision"])
            found.setdefault(key, []).append(row)
            marks.setdefault(key, []).extend(
                mark | {"dimension": row["dimension"]} for mark in published_marks(study, cell, "step_time")
            )
    several = [
        (key, rows) for key, rows in found.items() if len({row["dimension"] for row in rows}) >= FEWEST
    ]
    if not several:
        raise LeftOut(
            f"no single operator was timed at {FEWEST} sizes or more of one number: "
            "assay run --workload op/relu --size 500,3500,6500 has them"
        )
    kept, note = most(several, lambda item: len(item[1]), "operator", limit=24)
    panels = []
    for (workload, task, precision), rows in kept:
        rows.sort(key=lambda row: (row["series"], row["device"], row["dimension"]))
        kind = "forward" if task == "infer" else "forward and backward"
        heading = Heading(f"{workload}, {kind}", precision)
        panels.append(panel(study, heading, rows, marks[workload, task, precision]))
    if any(marks[key] for key, _ in kept):
        note = f"◆ is what others published; a ratio is drawn over the other cell's time here. {note}"
    return panels, note.strip()


PLOT = Plot(
    "dimension",
    "Operator time against dimension",
    "Both axes are linear; lower is faster, and the slope is what one more element costs. The line is the "
    "median over forks, the band their whole range. Dashes mark the device.",
    draw,
)
