"""Time of single operators against their size, with the limits of the machine's arithmetic and memory."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    PLAIN,
    SECONDS,
    LeftOut,
    Panel,
    Plot,
    Row,
    colour,
    dash,
    most,
    ranked,
    shape,
    tips,
    values,
)
from assay_plots.report import Cell, Heading, Study
from assay_plots.text import shown
from assay_plots.theme import LIMIT

MEMORY, ARITHMETIC = "memory bandwidth", "arithmetic"
ROOFS = {MEMORY: [2, 3], ARITHMETIC: [9, 4]}
POINT = alt.OverlayMarkDef(color=LIMIT, size=14)  # a target for the pointer


def extent(cell: Cell) -> float:
    """Return the x position of a size: the bytes that a step touches, or else its operations."""
    return cell.work.bytes or cell.work.flops or 0.0


def point(cell: Cell) -> Row:
    metric = cell.metrics["step_time"]
    forks = [fork.step_seconds for fork in cell.counted_forks() if fork.step_seconds] or [metric.value]
    share = cell.value("roofline_share")
    return {
        "series": cell.series,
        "size": cell.axes["size"],
        "extent": extent(cell),
        "seconds": metric.value,
        "low": min(forks),
        "high": max(forks),
        "text": metric.text,
        "share": "–" if share is None else f"{100 * share:.0f} %",
        "flags": ", ".join(cell.flags) or "clean",
        "clean": cell.clean,
    }


def roofs(cells: list[Cell]) -> list[Row]:
    rows: dict[tuple[str, float], Row] = {}
    for cell in cells:
        for name, seconds in ((MEMORY, cell.memory_limit), (ARITHMETIC, cell.arithmetic_limit)):
            if seconds is not None:
                row = {"roof": name, "extent": extent(cell), "seconds": seconds}
                rows[name, extent(cell)] = row | {"text": shown(seconds, "duration", "s")}
    return list(rows.values())


def in_one_line(cells: list[Cell]) -> bool:
    """Whether larger in bytes is also larger in operations, so that a line is meaningful."""
    order = sorted({(extent(cell), cell.work.flops or 0.0, cell.axes["size"]) for cell in cells})
    flops = [entry[1] for entry in order]
    return flops == sorted(flops) and len({entry[0] for entry in order}) == len(order)


def panel(study: Study, title: Heading, cells: list[Cell]) -> Panel:
    rows = sorted((point(cell) for cell in cells), key=lambda row: float(row["extent"]))
    counted = "bytes read and written a step" if any(c.work.bytes for c in cells) else "operations a step"
    x = alt.X(
        "extent:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(labelExpr=PLAIN, labelFlush=16, tickCount=6, title=counted),
    )
    scale = alt.Scale(type="log", nice=True)
    y = alt.Y(
        "seconds:Q",
        scale=scale,
        axis=alt.Axis(labelExpr=SECONDS, tickCount=6, title="time a step"),
    )
    about = tips(("series", "backend, mode"), ("size", "size"), ("text", "time"), ("share", "of roofline"))
    about += tips(("flags", "quality"))
    base = alt.Chart(values(rows))
    layers: list[alt.Chart] = []
    if in_one_line(cells):
        band = base.mark_area(opacity=0.18)
        layers += [
            band.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour(study, rows)),
            base.mark_line(opacity=0.8).encode(
                x=x, y=y, color=colour(study, rows), strokeDash=dash(study, rows)
            ),
        ]
    layers.append(
        base.mark_point(filled=True, size=55, opacity=1).encode(
            x=x,
            y=y,
            color=colour(study, rows),
            shape=shape(study, rows),
            opacity=ranked(),
            tooltip=about,
        )
    )
    about = tips(("roof", "limit"), ("text", "least time"))
    for roof, dashes in ROOFS.items():
        limits = [row for row in roofs(cells) if row["roof"] == roof]
        line = alt.Chart(values(limits)).mark_line(
            color=LIMIT, strokeDash=dashes, strokeWidth=1.5, point=POINT
        )
        layers += [line.encode(x=x, y=y, tooltip=about)] if limits else []
    return Panel(title, alt.layer(*layers).properties(height=300))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = [
        (
            family.heading,
            [
                cell
                for group in family.groups
                for cell in study.groups[group].cells
                if (cell.value("step_time") or 0) > 0 and extent(cell) > 0
            ],
        )
        for family in study.families
        if family.is_op
    ]
    families = [(title, cells) for title, cells in found if cells]
    if not families:
        raise LeftOut(
            "no single operator was timed: use assay run --workload op/gemm (see assay list workloads)"
        )
    kept, note = most(families, lambda item: len(item[1]), "operator")
    if not any(roofs(cells) for _, cells in kept):
        note = f"The machine's peak and bandwidth were not measured in this run (--roofline true). {note}"
    return [panel(study, title, cells) for title, cells in kept], note


PLOT = Plot(
    "operators",
    "Operator time against size",
    "Both axes are logarithmic; lower is faster. A band is the range over forks. The red lines are the "
    "minimum time on this machine, measured in the same run: dots by its memory (copy bandwidth), dashes by "
    "its arithmetic (large matrix products). No result is below the dashes; with operands that fit in a "
    "cache, a result may be below the dots.",
    draw,
)
