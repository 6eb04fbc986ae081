"""Bars over an axis that a run varies: epochs, batch, workers, a switch, the network."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    SECONDS,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    diamonds,
    is_wide,
    most,
    offset,
    published_marks,
    ranked,
    repeats_colours,
    shape,
    tips,
    values,
    with_interval,
)
from assay_plots.over_axis import Sweep, axis_value, sweeps
from assay_plots.report import Cell, Study

AXES = (
    *("epochs", "batch", "loader_workers", "threads", "embedding-gradient", "schedule", "memory-fraction"),
    *("initial", "pixels", "epsilon", "norm-momentum", "sequence-length", "precision", "loader"),
    "augmentation",
)
OF_EPOCHS = ("training_time", "epoch_time", "first_epoch_accuracy", "validation_accuracy")
OF_STEPS = ("step_time",)


def metrics_of(cells: tuple[Cell, ...]) -> list[str]:
    wanted = OF_EPOCHS if any(cell.axes["measure"].startswith("epochs") for cell in cells) else OF_STEPS
    return [name for name in wanted if any(cell.value(name) is not None for cell in cells)]


def row_of(cell: Cell, axis: str, metric: str) -> Row:
    found = cell.metrics[metric]
    row = {"series": cell.series, "place": axis_value(cell, axis), "value": found.value, "text": found.text}
    return row | {"lower": found.lower, "upper": found.upper, "n": found.n, "clean": cell.clean}


def marks_of(study: Study, sweep: Sweep, metric: str) -> list[Row]:
    """Give the published values of the cells that are drawn."""
    return [
        mark | {"place": axis_value(cell, sweep.axis)}
        for cell in sweep.cells
        if cell.value(metric) is not None
        for mark in published_marks(study, cell, metric)
    ]


def y_axis(study: Study, metric: str, logarithmic: bool) -> alt.Y:
    row = study.metrics[metric]
    if row.hint == "duration":
        axis = alt.Axis(labelExpr=SECONDS, tickCount=5, title=row.heading)
    else:
        axis = alt.Axis(format=".0%" if row.hint == "percentage" else "~s", tickCount=5, title=row.heading)
    scale = alt.Scale(type="log", nice=True) if logarithmic else alt.Scale(zero=True)
    return alt.Y("value:Q", scale=scale, axis=axis)


def panel(study: Study, sweep: Sweep, metric: str) -> Panel:
    rows = [row_of(cell, sweep.axis, metric) for cell in sweep.cells if cell.value(metric) is not None]
    marks = marks_of(study, sweep, metric)
    numbers = [row["value"] for row in rows] + [mark["published"] for mark in marks]
    title = sweep.axis.replace("_", " ").replace("-", " ")
    x = alt.X("place:N", sort=sweep.values(), title=title, axis=alt.Axis(labelAngle=0))
    within = offset(study, rows)
    logarithmic = is_wide(numbers)
    as_points = logarithmic or repeats_colours(study, rows)
    y = y_axis(study, metric, logarithmic)
    about = tips(("series", "backend, mode"), ("place", title), ("text", metric), ("n", "forks"))
    base = alt.Chart(values(rows))
    form = base.mark_point(filled=True, size=80) if as_points else base.mark_bar()
    drawn = form.encode(
        **({"shape": shape(study, rows)} if as_points else {}),
        x=x,
        xOffset=within,
        y=y,
        color=colour(study, rows),
        opacity=ranked(),
        tooltip=about,
    )
    spans = with_interval(base)
    whiskers = spans.mark_rule(strokeWidth=2).encode(x=x, xOffset=within, y="lower:Q", y2="upper:Q")
    layers = [drawn, whiskers]
    if marks:
        said = tips(("text", "published"), ("source", "by"))
        layers.append(diamonds(marks).encode(x=x, xOffset=within, y="published:Q", tooltip=said))
    heading = sweep.heading.of(study.metrics[metric].heading)
    return Panel(heading, alt.layer(*layers).properties(height=240))


def draw(study: Study) -> tuple[list[Panel], str]:
    found: list[tuple[Sweep, str]] = []
    for axis in AXES:
        for sweep in sweeps(study, axis, lambda cell: bool(metrics_of((cell,)))):
            found += [(sweep, metric) for metric in metrics_of(sweep.cells)]
    if not found:
        raise LeftOut(
            "no two cells differ in one axis (epochs, batch, loader workers, threads, gradient, schedule): "
            "assay run --threads 1,2 has two"
        )
    kept, note = most(found, lambda pair: len(pair[0].cells), "comparison")
    if any(marks_of(study, sweep, metric) for sweep, metric in kept):
        note = f"◆ is what others published; a ratio is drawn over the other cell's value here. {note}"
    return [panel(study, sweep, metric) for sweep, metric in kept], note.strip()


PLOT = Plot(
    "bars",
    "Bars over an axis",
    "A group of bars for each value of an axis that the run varied, such as 5, 10 and 15 epochs. The line "
    "through a bar's end is its interval (from six forks on). Where values differ more than twentyfold the "
    "axis is logarithmic, with points for bars. Pale: not ranked.",
    draw,
)
