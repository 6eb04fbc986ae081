"""The additional time of a framework over a bare vendor library on the same graph."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import (
    LeftOut,
    Panel,
    Plot,
    Row,
    bars_across,
    bars_height,
    colour,
    most,
    tips,
    values,
)
from assay_plots.report import Group, Study
from assay_plots.text import significant


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.0f} %" if ratio < 10 else f"+{significant(100 * (ratio - 1))} %"


def taxed(study: Study, group: Group) -> list[Row]:
    rows: list[Row] = []
    for cell in group.cells:
        ratio = cell.ratio
        if not cell.taxed or ratio is None or cell.base is None:
            continue
        base = study.all_cells[cell.base]
        bounds = [bound - 1 for bound in (ratio.lower, ratio.upper) if bound is not None]
        text = percent(ratio.value)
        if ratio.lower is not None and ratio.upper is not None:
            text += f" [{percent(ratio.lower)}, {percent(ratio.upper)}]"
        rows.append(
            {"series": cell.series, "tax": ratio.value - 1, "base": base.series, "n": ratio.n, "text": text}
            | dict(zip(("lower", "upper"), bounds, strict=False))
            | {"label": percent(ratio.value), "end": max([ratio.value - 1, 0.0, *bounds])}
        )
    return sorted(rows, key=lambda row: float(row["tax"]))


def panel(study: Study, group: Group, rows: list[Row]) -> Panel:
    y = alt.Y("series:N", sort=[row["series"] for row in rows], title=None)
    top = max(row["end"] for row in rows)
    low = min([0.0] + [row["tax"] for row in rows])
    domain = [low * 1.2, (top or -low or 1.0) * 1.3]
    base = alt.Chart(values(rows))
    about = tips(("series", "backend, mode"), ("text", "tax"), ("base", "over"), ("n", "rounds"))
    x = alt.X(
        "tax:Q",
        scale=alt.Scale(domain=domain, nice=False),
        axis=alt.Axis(format="+.0%", tickCount=5, title=f"more time a step than {rows[0]['base']}"),
    )
    bars = bars_across(base, y, x, colour(study, rows, legend=False), about)
    labels = base.mark_text(align="left", dx=6).encode(y=y, x="end:Q", text="label:N")
    return Panel(group.heading, alt.layer(*bars, labels).properties(height=bars_height(len(rows))))


def draw(study: Study) -> tuple[list[Panel], str]:
    taxes = [(group, rows) for group in study.networks if (rows := taxed(study, group))]
    if not taxes:
        raise LeftOut(
            "the tax is a framework's time over a bare library's (such as onednn primitives) in the same "
            "rounds; no comparison of this report has clean forks of both"
        )
    kept, note = most(taxes, lambda pair: len(pair[1]), "comparison")
    return [panel(study, group, rows) for group, rows in kept], note


PLOT = Plot(
    "tax",
    "Framework tax",
    "The additional time of a framework for a step, compared with the fastest bare vendor library: "
    "+100 % is twice the time. These are medians of ratios within rounds, so a slow moment of the machine "
    "hits both.",
    draw,
)
