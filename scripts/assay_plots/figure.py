"""The parts of a plot: panels, one per group of comparable cells, or the reason why it has no panels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import altair as alt

from assay_plots.analysis import of_at_most
from assay_plots.report import Cell, Heading, Study
from assay_plots.text import plural, shown
from assay_plots.theme import DISTINCT, PUBLISHED, colour_of, dash_of, shape_of

MAX_PANELS = 12
MAX_ROWS = 40  # bars, tensors or tracks in one panel
LOGARITHMIC_FROM = 20  # times the smallest value

BOTTOM = alt.Legend(orient="bottom", title=None, symbolOpacity=1)
LEGEND = alt.Legend(
    orient="bottom",
    columns=2,
    title=None,
    symbolLimit=DISTINCT,
    symbolOpacity=1,
    symbolDash=[1, 0],
    symbolStrokeWidth=0,
)
PLAIN = "format(datum.value, '~s')"  # 0, 20k; not the common prefix that an axis gives all its ticks
SECONDS = "format(datum.value, '~s') + 's'"
BYTES = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '.3~g') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '.3~g') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '.3~g') + ' KiB' : datum.value + ' B'"
)

Chart = alt.Chart | alt.LayerChart | alt.FacetChart
Row = dict[str, Any]
T = TypeVar("T")


class LeftOut(Exception):
    """A report lacks the data of a plot; the message names it, and the option that measures it."""


@dataclass(frozen=True, slots=True)
class Panel:
    heading: Heading
    chart: Chart


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture: add one by listing it in plots/__init__.py."""

    name: str  # the name of its files
    title: str
    caption: str  # explains how to read it, for new readers
    draw: Callable[[Study], tuple[list[Panel], str]]  # panels and a note; raises LeftOut


@dataclass(frozen=True, slots=True)
class Figure:
    plot: Plot
    panels: list[Panel] = field(default_factory=list)
    note: str = ""
    left_out: str = ""


def draw(plot: Plot, study: Study) -> Figure:
    drawn = of_at_most(study, MAX_ROWS)
    try:
        panels, note = plot.draw(drawn)
    except LeftOut as reason:
        lost = sum(cell.status == "interrupted" for cell in study.cells)
        rest = f"; {plural(lost, 'cell')} not yet measured: assay run --resume REPORT" if lost else ""
        return Figure(plot, left_out=f"{reason}{rest}")
    if drawn is not study:
        note = f"Comparisons of more than {MAX_ROWS} cells show only the first in rank. {note}".strip()
    return Figure(plot, panels, note)


def most(
    items: Sequence[T], worth: Callable[[T], float], what: str, limit: int = MAX_PANELS
) -> tuple[list[T], str]:
    """Choose the `limit` items of highest worth, in their own order, and describe what is left out."""
    if len(items) <= limit:
        return list(items), ""
    kept = set(sorted(range(len(items)), key=lambda i: -worth(items[i]))[:limit])
    note = f"{limit} of {plural(len(items), what)} are drawn; --filter TEXT draws others."
    return [item for i, item in enumerate(items) if i in kept], note


def values(rows: Iterable[Row]) -> alt.InlineData:
    return alt.InlineData(values=list(rows))


def _scale(study: Study, present: Iterable[str], code: Callable[[int], Any]) -> alt.Scale:
    shown = set(present)
    numbered = [(i, name) for i, name in enumerate(study.series) if name in shown]
    return alt.Scale(domain=[name for _, name in numbered], range=[code(i) for i, _ in numbered])


def _series(rows: Sequence[Row]) -> Iterable[str]:
    return (row["series"] for row in rows)


def colour(study: Study, rows: Sequence[Row], legend: bool = True) -> alt.Color:
    """Colour by series; a series has the same colour in every picture of a study."""
    shown = LEGEND if legend else None
    return alt.Color("series:N", scale=_scale(study, _series(rows), colour_of), legend=shown)


def shape(study: Study, rows: Sequence[Row], legend: bool = True) -> alt.Shape:
    """Give points a shape by series; the legend joins that of the colour."""
    shown = LEGEND if legend else None
    return alt.Shape("series:N", scale=_scale(study, _series(rows), shape_of), legend=shown)


def dash(study: Study, rows: Sequence[Row]) -> alt.StrokeDash:
    """Dash lines by series, with a separate domain: else Vega-Lite also dashes the symbols of the legend."""
    scale = _scale(study, _series(rows), dash_of)
    scale["domain"], scale["range"] = [*scale["domain"], ""], [*scale["range"], [1, 0]]
    return alt.StrokeDash("series:N", scale=scale, legend=None)


def repeats_colours(study: Study, rows: Sequence[Row]) -> bool:
    """Whether two of these series have one colour, which only shapes or dashes tell apart."""
    present = set(_series(rows))
    numbers = [i for i, name in enumerate(study.series) if name in present]
    return len({colour_of(i) for i in numbers}) < len(numbers)


def line_and_points(
    study: Study, rows: Sequence[Row], about: list[alt.Tooltip], dashes: alt.StrokeDash, **encoding: Any
) -> list[alt.Chart]:
    """Draw lines of series with a point at each row."""
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    line = base.mark_line().encode(color=hue, strokeDash=dashes, **encoding)
    points = base.mark_point(filled=True, size=40)
    return [line, points.encode(color=hue, shape=shape(study, rows), tooltip=about, **encoding)]


def offset(study: Study, rows: Sequence[Row]) -> alt.XOffset:
    """Place the series of a group next to each other, in the order of the study."""
    present = {row["series"] for row in rows}
    return alt.XOffset("series:N", sort=[name for name in study.series if name in present])


def is_wide(numbers: Sequence[float]) -> bool:
    """Whether an axis of these numbers should be logarithmic."""
    return min(numbers) > 0 and max(numbers) > LOGARITHMIC_FROM * min(numbers)


def ranked(pale: float = 0.45) -> Any:
    """Give the opacity of a mark: rows that are not clean are pale."""
    return alt.condition("datum.clean", alt.value(1.0), alt.value(pale))


def with_interval(base: alt.Chart, lower: str = "lower", upper: str = "upper") -> alt.Chart:
    """Keep the rows that have an interval, for the line that draws it."""
    return base.transform_filter(f"isValid(datum.{lower}) && isValid(datum.{upper})")


def bars_across(
    base: alt.Chart, y: alt.Y, x: alt.X, hue: alt.Color, about: list[alt.Tooltip]
) -> list[alt.Chart]:
    """Draw horizontal bars, and a line over each that has an interval."""
    spans = with_interval(base).mark_rule(strokeWidth=2)
    return [
        base.mark_bar(height=16).encode(y=y, x=x, color=hue, tooltip=about),
        spans.encode(y=y, x="lower:Q", x2="upper:Q", tooltip=about),
    ]


def published_marks(study: Study, cell: Cell, metric: str) -> list[Row]:
    """Give what was published of a metric, a ratio as times the other cell's value here."""
    described = study.metrics[metric]
    marks: list[Row] = []
    for entry in cell.published:
        if entry.metric != metric or entry.value is None:
            continue
        value = entry.value
        if entry.is_ratio:
            there = study.all_cells[entry.other].value(metric) if entry.other is not None else None
            if there is None:
                continue
            value *= there
        mark: Row = {"series": cell.series, "published": value, "source": entry.said}
        marks.append(mark | {"text": shown(value, described.hint, described.unit)})
    return marks


def diamonds(marks: list[Row]) -> alt.Chart:
    """Draw what others published."""
    drawn: alt.Chart = alt.Chart(values(marks)).mark_point(
        shape="diamond", size=90, fill=PUBLISHED, stroke="white", strokeWidth=1.3, opacity=1
    )
    return drawn


def tips(*fields: tuple[str, str]) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields]


def bars_height(count: int) -> int:
    return 30 * max(count, 1) + 8
