"""How loss falls and accuracy rises, by epoch and by time."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import LeftOut, Panel, Plot, Row, colour, dash, line_and_points, most, tips, values
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown, significant


def losses(cell: Cell) -> list[Row]:
    """Return the training loss after each epoch that all forks completed."""
    return [
        {
            "series": cell.series,
            "epoch": point.epoch,
            "loss": point.median,
            "low": point.low,
            "high": point.high,
        }
        | {"text": significant(point.median, 4)}
        for point in cell.train_loss
    ]


def accuracies(cell: Cell) -> list[Row]:
    rows: list[Row] = []
    for fork in cell.counted_forks():
        for e in fork.evaluations:
            if e.split == "validation" and e.epoch > 0 and e.accuracy is not None:
                seconds = e.after_seconds
                rows.append(
                    {"series": cell.series, "fork": f"{cell.series} {fork.round}", "round": fork.round}
                    | {"seconds": seconds, "accuracy": e.accuracy, "epoch": e.epoch}
                    | {"time": shown(seconds, "duration", "s"), "share": f"{100 * e.accuracy:.2f} %"}
                )
    return rows


def loss_panel(study: Study, group: Group, rows: list[Row]) -> Panel:
    x = alt.X("epoch:Q", title="epoch", axis=alt.Axis(format="d", tickMinStep=1, tickCount=8))
    y = alt.Y("loss:Q", title="training loss", scale=alt.Scale(zero=False))
    base = alt.Chart(values(rows))
    hue = colour(study, rows)
    about = tips(("series", "backend, mode"), ("epoch", "epoch"), ("text", "loss, median over forks"))
    band = base.mark_area(opacity=0.18).encode(
        x=x, y=alt.Y("low:Q", scale=alt.Scale(zero=False)), y2="high:Q", color=hue
    )
    drawn = line_and_points(study, rows, about, dash(study, rows), x=x, y=y)
    return Panel(group.heading.of("Loss by epoch"), alt.layer(band, *drawn).properties(height=260))


def accuracy_panel(study: Study, group: Group, rows: list[Row]) -> Panel:
    x = alt.X("seconds:Q", title="seconds of training, compilation included")
    y = alt.Y(
        "accuracy:Q", title="validation accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(format=".1%")
    )
    about = tips(("series", "backend, mode"), ("round", "round"), ("epoch", "epoch"), ("time", "after"))
    about += tips(("share", "validation accuracy"))
    drawn = line_and_points(study, rows, about, dash(study, rows), x=x, y=y, detail="fork:N")
    return Panel(group.heading.of("Accuracy by time"), alt.layer(*drawn).properties(height=260))


def draw(study: Study) -> tuple[list[Panel], str]:
    found = []
    for group in study.networks:
        loss = [row for cell in group.cells for row in losses(cell)]
        accuracy = [row for cell in group.cells for row in accuracies(cell)]
        if len({row["epoch"] for row in loss + accuracy}) > 1:
            found.append((group, loss, accuracy))
    if not found:
        raise LeftOut("no cell was evaluated after two epochs or more: use assay run --epochs N")
    kept, note = most(found, lambda entry: len(entry[1]), "comparison", limit=6)
    panels: list[Panel] = []
    for group, loss, accuracy in kept:
        panels += [loss_panel(study, group, loss)] if loss else []
        panels += [accuracy_panel(study, group, accuracy)] if accuracy else []
    return panels, note


PLOT = Plot(
    "convergence",
    "Convergence",
    "Left: training loss after each epoch, median and range over forks; the lines of backends that compute "
    "the same overlap. Right: validation accuracy against training time, one line per fork.",
    draw,
)
