"""The memory plans of every network in one picture, training and prediction."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import BOTTOM, LeftOut, Panel, Plot, Row, most, tips, values
from assay_plots.plots.memory import plans_of
from assay_plots.report import Cell, Heading, Study
from assay_plots.text import shown, significant
from assay_plots.theme import PUBLISHED, SERIES

NAIVE = "plan_naive"
TASKS = {"train": "Training", "infer": "Prediction", "decode": "Decoding a token"}


def rows_of(study: Study, cells: list[Cell]) -> list[Row]:
    rows: list[Row] = []
    for cell in cells:
        naive = cell.value(NAIVE)
        for metric in plans_of(study):
            size = cell.value(metric.name)
            if size is not None and naive:
                row = {"network": cell.axes["workload"], "plan": metric.heading, "share": size / naive}
                rows.append(row | {"text": shown(size, metric.hint, metric.unit)})
    return rows


def marks_of(cells: list[Cell]) -> list[Row]:
    """Give the arena that a published saving would leave."""
    return [
        {"network": cell.axes["workload"], "share": 1 / entry.value, "source": entry.source}
        | {"text": f"{significant(entry.value)} times less"}
        for cell in cells
        for entry in cell.published
        if entry.metric == "plan_saving" and entry.value
    ]


def panel(study: Study, task: str, cells: list[Cell]) -> Panel:
    rows, marks = rows_of(study, cells), marks_of(cells)
    plans = [row.heading for row in plans_of(study)]
    x = alt.X("network:N", sort=[cell.axes["workload"] for cell in cells], title=None)
    side_by_side = alt.XOffset("plan:N", sort=plans)
    y = alt.Y("share:Q", title="arena, of the naive plan", axis=alt.Axis(format=".0%", tickCount=5))
    hue = alt.Color("plan:N", scale=alt.Scale(domain=plans, range=list(SERIES[: len(plans)])), legend=BOTTOM)
    about = tips(("network", "network"), ("plan", "plan"), ("text", "size"))
    bars = alt.Chart(values(rows)).mark_bar().encode(x=x, xOffset=side_by_side, y=y, color=hue, tooltip=about)
    layers: list[alt.Chart] = [bars]
    if marks:
        ticks = alt.Chart(values(marks)).mark_tick(color=PUBLISHED, thickness=2.5, size=50)
        layers.append(ticks.encode(x=x, y="share:Q", tooltip=tips(("text", "published"), ("source", "by"))))
    about_all = f"{cells[0].axes['precision']}, the arena of a step over that of the naive plan"
    return Panel(Heading(TASKS.get(task, task), about_all), alt.layer(*layers).properties(height=260))


def draw(study: Study) -> tuple[list[Panel], str]:
    by_task: dict[str, list[Cell]] = {}
    for plan in study.plans:
        if not plan.cell.is_op and plan.cell.value(NAIVE):
            by_task.setdefault(plan.cell.axes["task"], []).append(plan.cell)
    tasks = {task: cells for task, cells in by_task.items() if len({c.axes["workload"] for c in cells}) > 1}
    if not tasks:
        raise LeftOut("this report has the memory plans of only one network: assay run mxnet-memory has nine")
    kept, note = most(list(tasks.items()), lambda item: len(item[1]), "task")
    if any(marks_of(cells) for _, cells in kept):
        note = f"The line across a network is the saving that others published. {note}".strip()
    return [panel(study, task, cells) for task, cells in kept], note


PLOT = Plot(
    "plans",
    "Memory plans over networks",
    "How much of the naive plan's memory each plan needs for one step of each network: lower is less. The "
    "last bar of a network is what no plan can go below.",
    draw,
)
