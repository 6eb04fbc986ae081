"""The utilisation of the processor and the GPU during a fork, with its phases."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, LeftOut, Panel, Plot, Row, most, tips, values
from assay_plots.report import Cell, Item, Study

PHASES = {"warm up": "#c9a227", "timed": "#0072b2", "other": "#7f7f7f"}


def kind_of(phase: str) -> str:
    return "warm up" if phase == "warm up" else "timed"


def phase_rows(timeline: Item, end: float) -> list[Row]:
    """Return the phases and the gaps between them: set-up, compilation, evaluation."""
    rows: list[Row] = []
    now = 0.0
    for phase in timeline.phases:
        if phase.begin > now:
            rows.append(
                {
                    "phase": "other",
                    "name": "evaluation, compilation, checks",
                    "begin": now,
                    "end": phase.begin,
                }
            )
        rows.append(
            {"phase": kind_of(phase.kind), "name": phase.kind, "begin": phase.begin, "end": phase.end}
        )
        now = max(now, phase.end)
    if end > now:
        rows.append({"phase": "other", "name": "evaluation, compilation, checks", "begin": now, "end": end})
    return rows


def panel(study: Study, cell: Cell, timeline: Item) -> Panel:
    end = max([timeline.times[-1], *(phase.end for phase in timeline.phases)])
    cpu = [
        {"seconds": t, "busy": b, "what": "CPU cores"}
        for t, b in zip(timeline.times, timeline.cpu, strict=True)
    ]
    threads = int(cell.axes["threads"] or 1) if (cell.axes["threads"] or "1").isdigit() else 1
    top = max([float(threads), *timeline.cpu]) * 1.08
    x = alt.X("seconds:Q", title="seconds", scale=alt.Scale(domain=[0, end or 1], nice=False))
    y = alt.Y(
        "busy:Q",
        title="CPU cores busy",
        scale=alt.Scale(domain=[0, top], nice=False),
        axis=alt.Axis(tickCount=5),
    )
    shade = alt.Color(
        "phase:N", scale=alt.Scale(domain=list(PHASES), range=list(PHASES.values())), legend=BOTTOM
    )
    bands = (
        alt.Chart(values(phase_rows(timeline, end)))
        .mark_rect(opacity=0.22)
        .encode(
            x=alt.X("begin:Q", title="seconds", axis=alt.Axis(tickCount=6)),
            x2="end:Q",
            color=shade,
            tooltip=tips(("name", "phase")),
        )
    )
    line = alt.Chart(values(cpu)).mark_line(interpolate="step-before", color="#d55e00", strokeWidth=1.6)
    layers: list[alt.Chart | alt.LayerChart] = [
        bands,
        line.encode(x=x, y=y, tooltip=tips(("busy", "cores busy"))),
    ]
    if timeline.gpu:
        gpu = [{"seconds": t, "share": g} for t, g in zip(timeline.times, timeline.gpu, strict=False)]
        right = alt.Y(
            "share:Q",
            title="GPU busy (dashed)",
            scale=alt.Scale(domain=[0, 1.08], nice=False),
            axis=alt.Axis(format=".0%", orient="right"),
        )
        dashed = alt.Chart(values(gpu)).mark_line(strokeDash=[5, 3], color="#009e73", strokeWidth=1.6)
        with_gpu = dashed.encode(x=x, y=right, tooltip=tips(("share", "GPU busy")))
        chart = alt.layer(alt.layer(*layers), with_gpu).resolve_scale(y="independent")
    else:
        chart = alt.layer(*layers)
    return Panel(study.groups[cell.group].heading.of(cell.series), chart.properties(height=200))


def draw(study: Study) -> tuple[list[Panel], str]:
    seen = [(cell, cell.timeline) for cell in study.cells if cell.timeline and not cell.is_op]
    seen = seen or [(cell, cell.timeline) for cell in study.cells if cell.timeline]
    if not seen:
        raise LeftOut("no fork ran long enough for two samples of the machine (one each quarter of a second)")
    kept, note = most(seen, lambda pair: len(pair[1].times) if pair[1] else 0, "timeline")
    if not any(timeline.gpu for _, timeline in kept if timeline):
        note = f"No GPU was sampled in this report. {note}"
    return [panel(study, cell, timeline) for cell, timeline in kept if timeline], note


PLOT = Plot(
    "utilisation",
    "Utilisation over time",
    "One fork of a cell: the number of CPU cores that its process kept busy (orange), and the GPU if there "
    "was one (green, dashed), above its phases. Only the blue phases are timed.",
    draw,
)
