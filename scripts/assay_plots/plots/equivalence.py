"""The error of each backend against the oracle, tensor by tensor, as a share of the rounding bound."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import MAX_ROWS, LeftOut, Panel, Plot, Row, most, tips, values
from assay_plots.report import Cell, Heading, Item, Study
from assay_plots.theme import LIMIT

SCALE = alt.Legend(
    title="error / bound",
    format="~g",
    orient="bottom",
    values=[1e-4, 1e-3, 1e-2, 1e-1, 1],
    gradientLength=140,
)
LEAST = 1e-4  # smaller errors are drawn as this
Tensors = dict[str, dict[str, Item]]  # name -> series -> verdict


def tensors_of(cells: list[Cell]) -> Tensors:
    found: Tensors = {}
    for cell in cells:
        for tensor in cell.equivalence.tensors:
            found.setdefault(tensor.name, {})[cell.series] = tensor
    return found


def worst(verdicts: dict[str, Item]) -> float:
    return max(float("inf") if t.ratio is None else t.ratio for t in verdicts.values())


def verdict(ratio: float | None) -> tuple[str, str]:
    if ratio is None:
        return "✗", "not finite"
    text = f"{100 * ratio:.2g} % of the bound" if ratio <= 1 else f"{ratio:.3g} times the bound"
    return ("✗" if ratio > 1 else ""), text


def panel(title: Heading, tensors: Tensors) -> Panel:
    rows: list[Row] = []
    for name, verdicts in tensors.items():
        for series, tensor in verdicts.items():
            mark, text = verdict(tensor.ratio)
            ratio = 1.0 if tensor.ratio is None else min(max(tensor.ratio, LEAST), 1.0)
            rows.append({"series": series, "tensor": name, "ratio": ratio, "mark": mark, "text": text})
    x = alt.X("series:N", title=None, sort=None, axis=alt.Axis(labelAngle=-90, orient="top", labelLimit=130))
    y = alt.Y("tensor:N", title=None, sort=list(tensors), axis=alt.Axis(labelLimit=170))
    hue = alt.Color(
        "ratio:Q", scale=alt.Scale(type="log", scheme="cividis", domain=[LEAST, 1], clamp=True), legend=SCALE
    )
    about = tips(("tensor", "tensor"), ("series", "backend, mode"), ("text", "error"))
    base = alt.Chart(values(rows))
    cells = base.mark_rect(stroke="#808080", strokeWidth=0.4).encode(x=x, y=y, color=hue, tooltip=about)
    wrong = base.mark_text(color=LIMIT, fontSize=15, fontWeight="bold").encode(x=x, y=y, text="mark:N")
    return Panel(title, alt.layer(cells, wrong).properties(height=16 * len(tensors) + 10))


def draw(study: Study) -> tuple[list[Panel], str]:
    found: list[tuple[Heading, Tensors]] = []
    single: list[Cell] = []
    for group in study.groups:
        if group.is_op:
            single += [cell for cell in group.cells if cell.equivalence.tensors]
        elif tensors := tensors_of(group.cells):
            found.append((group.heading, tensors))
    ops: Tensors = {}
    for cell in single:
        highest = max(cell.equivalence.tensors, key=lambda t: float("inf") if t.ratio is None else t.ratio)
        name = f"{cell.axes['workload']} {cell.axes['task']} {cell.axes['size']}"
        ops.setdefault(name, {})[cell.series] = highest
    if ops:
        found.append((Heading("Single operators", "the worst tensor of each"), ops))
    if not found:
        raise LeftOut("no cell was compared with the oracle: the run had --check=false, or no cell ran")
    kept, note = most(found, lambda item: max(worst(v) for v in item[1].values()), "comparison", limit=6)
    panels: list[Panel] = []
    cut = False
    for title, tensors in kept:
        named, left = most(list(tensors.items()), lambda item: worst(item[1]), "tensor", limit=MAX_ROWS)
        cut = cut or bool(left)
        panels.append(panel(title, dict(named)))
    if cut:
        note = f"With more than {MAX_ROWS} tensors only the worst are drawn. {note}"
    return panels, note


PLOT = Plot(
    "equivalence",
    "Equivalence",
    "Does each backend compute the same? Each field is one tensor's error against an oracle in double "
    "precision, as a share of the error that rounding can explain. Dark is near the oracle, bright is near "
    "the bound; a red ✗ is above it, and such a cell is neither timed nor ranked.",
    draw,
)
