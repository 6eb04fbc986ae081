"""Where the time of a step goes in several ranks: computing, and exchanging gradients."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, LeftOut, Panel, Plot, Row, bars_height, most, tips, values
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown
from assay_plots.theme import SERIES

COMPUTED = "computing"
HIDDEN = "hidden exchange, while it computes"
EXPOSED = "exposed exchange"
PARTS = (COMPUTED, HIDDEN, EXPOSED)


def parts_of(cell: Cell) -> dict[str, float] | None:
    """Return the seconds of each part of a step; the hidden exchange is a part of the local step."""
    local, bare, exposed = (
        cell.value(name) for name in ("local_step_time", "bare_exchange_time", "exposed_exchange_time")
    )
    if local is None or bare is None or exposed is None:
        return None
    hidden = min(max(bare - max(exposed, 0.0), 0.0), local)
    return {COMPUTED: local - hidden, HIDDEN: hidden, EXPOSED: max(exposed, 0.0)}


def percent_of(cell: Cell, metric: str) -> str:
    share = cell.value(metric)
    return "" if share is None else f"{100 * share:.0f} %"


def rows_of(cell: Cell) -> list[Row]:
    about = {
        "series": cell.series,
        "share": percent_of(cell, "exchange_share"),
        "hides": percent_of(cell, "hidden_exchange_share"),
    }
    return [
        about | {"part": part, "seconds": seconds, "order": i, "text": shown(seconds, "duration", "s")}
        for i, (part, seconds) in enumerate((parts_of(cell) or {}).items())
    ]


def panel(group: Group, cells: list[Cell]) -> Panel:
    rows = [row for cell in cells for row in rows_of(cell)]
    y = alt.Y("series:N", sort=[cell.series for cell in cells], title=None)
    x = alt.X("seconds:Q", stack="zero", title="time of a step", axis=alt.Axis(format="~s"))
    scale = alt.Scale(domain=list(PARTS), range=list(SERIES[: len(PARTS)]))
    about = tips(
        ("series", "backend, mode"),
        ("part", "part"),
        ("text", "time"),
        ("share", "share of the step that is exposed"),
        ("hides", "share of the exchange that is hidden"),
    )
    bars = alt.Chart(values(rows)).mark_bar(height=18)
    chart = bars.encode(
        y=y, x=x, color=alt.Color("part:N", scale=scale, legend=BOTTOM), order="order:Q", tooltip=about
    )
    return Panel(group.heading, chart.properties(height=bars_height(len(cells))))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [(group, [cell for cell in group.in_rank if parts_of(cell)]) for group in study.networks]
    groups = [(group, cells) for group, cells in groups if cells]
    if not groups:
        raise LeftOut("no exchange of gradients was timed: assay run --ranks 2 does that, without --quick")
    kept, note = most(groups, lambda pair: len(pair[1]), "comparison")
    return [panel(group, cells) for group, cells in kept], note


PLOT = Plot(
    "exchange",
    "Cost of the exchange",
    "The parts of a step of several ranks. The first two are the step without its exchange of gradients. The "
    "third is how much longer the step is with it. The second is the hidden part of the exchange: the time "
    "that as many bytes take with nothing else going on, less the third.",
    draw,
)
