"""How much faster more threads are."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import LeftOut, Panel, Plot, Row, colour, dash, most, ranked, shape, tips, values
from assay_plots.over_axis import Sweep, axis_value, sweeps
from assay_plots.report import Cell, Study
from assay_plots.text import plural, significant

METRIC = "step_time"
IDEAL = "#7f7f7f"


def is_drawn(cell: Cell) -> bool:
    return (cell.value(METRIC) or 0) > 0 and cell.axes["threads"].isdigit() and int(cell.axes["threads"]) > 0


def rows_of(sweep: Sweep) -> list[Row]:
    by_series: dict[str, list[Cell]] = {}
    for cell in sweep.cells:
        by_series.setdefault(cell.series, []).append(cell)
    rows: list[Row] = []
    for series, cells in by_series.items():
        cells.sort(key=lambda cell: int(axis_value(cell, "threads")))
        first = cells[0].value(METRIC)
        if not first or len(cells) < 2:
            continue
        for cell in cells:
            gain = first / (cell.value(METRIC) or first)
            threads, base = int(axis_value(cell, "threads")), int(axis_value(cells[0], "threads"))
            row = {
                "series": series,
                "threads": threads,
                "speedup": gain,
                "text": f"{significant(gain)} times, by the medians of both (not paired)",
            }
            rows.append(row | {"share": f"{100 * gain * base / threads:.0f} %", "clean": cell.clean})
    return rows


def panel(study: Study, sweep: Sweep, rows: list[Row]) -> Panel:
    counts = sorted({row["threads"] for row in rows})
    x = alt.X(
        "threads:Q", title="threads", axis=alt.Axis(values=counts, format="d"), scale=alt.Scale(nice=False)
    )
    y = alt.Y(
        "speedup:Q", title=f"speed over that with {plural(counts[0], 'thread')}", scale=alt.Scale(zero=True)
    )
    about = tips(
        ("series", "backend, mode"), ("threads", "threads"), ("text", "as fast"), ("share", "efficiency")
    )
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    line = base.mark_line().encode(x=x, y=y, color=hue, strokeDash=dash(study, rows))
    points = base.mark_point(filled=True, size=60).encode(
        x=x,
        y=y,
        color=hue,
        shape=shape(study, rows),
        opacity=ranked(),
        tooltip=about,
    )
    ideal = [{"threads": count, "speedup": count / counts[0]} for count in counts]
    whole = alt.Chart(values(ideal)).mark_line(color=IDEAL, strokeDash=[3, 3], strokeWidth=1.2)
    return Panel(sweep.heading, alt.layer(whole.encode(x=x, y=y), line, points).properties(height=260))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = [(sweep, rows_of(sweep)) for sweep in sweeps(study, "threads", is_drawn, ops=True)]
    found = [(sweep, rows) for sweep, rows in found if rows]
    if not found:
        raise LeftOut("every backend ran with only one number of threads: assay run --threads 1,2 has two")
    kept, note = most(found, lambda pair: len(pair[1]), "comparison")
    return [panel(study, sweep, rows) for sweep, rows in kept], note


PLOT = Plot(
    "speedup",
    "Speed-up over threads",
    "The time of a step with the fewest threads over that with more, of each backend. The grey dotted line "
    "is a speed that grows with the threads; a line that bends away from it gains less from each further "
    "thread.",
    draw,
)
