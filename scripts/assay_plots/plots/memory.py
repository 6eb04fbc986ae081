"""Memory of a step under each plan, and the measured memory of the processes."""

from __future__ import annotations

import math

import altair as alt

from assay_plots.figure import (
    BYTES,
    LeftOut,
    Panel,
    Plot,
    Row,
    bars_height,
    colour,
    most,
    tips,
    values,
)
from assay_plots.report import Group, Item, Study
from assay_plots.text import shown

PARTS = ("persistent (parameters, moments)", "arena of a step")
PART_COLOURS = ("#7f7f7f", "#0072b2")
PARTS_LEGEND = alt.Legend(orient="bottom", columns=1, title=None, symbolOpacity=1)
ROOM = 1.45  # of the axis over the longest bar: for the label, also on a phone
MEASURED = (
    ("device_peak_memory", "device, peak"),
    ("host_peak_rss", "host, peak resident"),
    ("framework_peak", "framework's allocator, peak"),
    ("planned_arena", "arena of the step"),
)


def bytes_axis(title: str, top: float) -> alt.Axis:
    """Put ticks at powers of two and their multiples, about four of them."""
    step = 2.0 ** math.ceil(math.log2(top / 5)) if top > 0 else 1.0
    return alt.Axis(labelExpr=BYTES, values=[i * step for i in range(int(top / step) + 1)], title=title)


def plans_of(study: Study) -> list[Item]:
    return [row for row in study.metrics.values() if row.section == "memory_plans" and row.hint == "bytes"]


def planned(study: Study, plan_of: Item) -> Panel:
    """Stack the arena of each plan on the persistent tensors; a plan depends only on the graph."""
    cell, persistent = plan_of.cell, float(plan_of.persistent)
    rows: list[Row] = []
    labels: list[Row] = []
    for metric in plans_of(study):
        size, plan = cell.value(metric.name), metric.heading
        if size is None:
            continue
        for part, amount in zip(PARTS, (persistent, size), strict=True):
            if amount > 0:
                rows.append(
                    {
                        "plan": plan,
                        "part": part,
                        "bytes": amount,
                        "text": shown(amount, metric.hint, metric.unit),
                    }
                )
        labels.append({"plan": plan, "end": persistent + size, "text": shown(size, metric.hint, metric.unit)})
    for row in rows:
        row["order"] = PARTS.index(row["part"])
    y = alt.Y("plan:N", sort=[label["plan"] for label in labels], title=None)
    top = max(label["end"] for label in labels)
    x = alt.X(
        "bytes:Q",
        stack="zero",
        scale=alt.Scale(domain=[0, (top or 1) * ROOM], nice=False),
        axis=bytes_axis("bytes", top * ROOM),
    )
    hue = alt.Color(
        "part:N", scale=alt.Scale(domain=list(PARTS), range=list(PART_COLOURS)), legend=PARTS_LEGEND
    )
    about = tips(("plan", "plan"), ("part", "part"), ("text", "size"))
    bars = (
        alt.Chart(values(rows))
        .mark_bar(height=16)
        .encode(y=y, x=x, color=hue, order="order:Q", tooltip=about)
    )
    ends = alt.Chart(values(labels)).mark_text(align="left", dx=6).encode(y=y, x="end:Q", text="text:N")
    return Panel(
        study.groups[cell.group].heading.of("Plans"),
        alt.layer(bars, ends).properties(height=bars_height(len(labels))),
    )


def measured(study: Study, group: Group) -> list[Panel]:
    panels: list[Panel] = []
    for metric, name in MEASURED:
        rows: list[Row] = []
        for cell in group.in_rank:
            found = cell.metrics.get(metric)
            if found and found.value > 0:
                text = shown(found.value, found.hint, found.unit)
                rows.append({"series": cell.series, "bytes": found.value, "text": text})
        if not rows:
            continue
        top = max(row["bytes"] for row in rows)
        y = alt.Y("series:N", sort=[row["series"] for row in rows], title=None)
        x = alt.X(
            "bytes:Q", scale=alt.Scale(domain=[0, top * ROOM], nice=False), axis=bytes_axis(name, top * ROOM)
        )
        base = alt.Chart(values(rows))
        about = tips(("series", "backend, mode"), ("text", name))
        bars = base.mark_bar(height=16).encode(
            y=y, x=x, color=colour(study, rows, legend=False), tooltip=about
        )
        ends = base.mark_text(align="left", dx=6).encode(y=y, x="bytes:Q", text="text:N")
        title = group.heading.of(f"Measured ({name})")
        panels.append(Panel(title, alt.layer(bars, ends).properties(height=bars_height(len(rows)))))
    return panels


def draw(study: Study) -> tuple[list[Panel], str]:
    plans = [planned(study, plan) for plan in study.plans if not plan.cell.is_op]
    plans, note = most(plans, lambda _: 0.0, "program", limit=6)
    groups = [g for g in study.networks if any((c.value(m) or 0) > 0 for c in g.cells for m, _ in MEASURED)]
    groups, also = most(groups, lambda g: len(g.cells), "comparison", limit=6)
    panels = plans + [panel for group in groups for panel in measured(study, group)]
    if not panels:
        raise LeftOut("this report has no memory plan and no measured memory")
    return panels, f"{note} {also}".strip()


PLOT = Plot(
    "memory",
    "Memory",
    "Plans: the memory of a step if every tensor has its own bytes (naive), if results overwrite operands "
    "that are not needed later (in place), and if tensors with separate lifetimes share bytes (co-share); "
    "the last bar is the lower bound of all plans. Measured: the whole process, with its framework's code "
    "and caches; and what a worker reports of its allocator or its arena.",
    draw,
)
