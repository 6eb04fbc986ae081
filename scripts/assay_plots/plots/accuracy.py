"""Training time against accuracy: each repeat is a point (Paltenghi et al. 2020, benchmark C)."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import LeftOut, Panel, Plot, Row, colour, most, shape, tips, values
from assay_plots.report import Cell, Group, Study
from assay_plots.text import shown

SPLITS = ("test", "validation", "train")


def repeats(cell: Cell, split: str) -> list[Row]:
    rows: list[Row] = []
    for fork in cell.counted_forks():
        seconds, accuracy = fork.training_seconds, fork.accuracy.get(split)
        if seconds is None or accuracy is None:
            continue
        rows.append(
            {"series": cell.series, "seconds": seconds, "accuracy": accuracy, "round": fork.round}
            | {"time": shown(seconds, "duration", "s"), "share": f"{100 * accuracy:.2f} %"}
        )
    return rows


def split_of(group: Group) -> str | None:
    return next((split for split in SPLITS if any(repeats(cell, split) for cell in group.cells)), None)


def panel(study: Study, group: Group, split: str) -> Panel:
    rows = [row for cell in group.cells for row in repeats(cell, split)]
    x = alt.X(
        "seconds:Q",
        title="seconds of training, compilation included",
        scale=alt.Scale(zero=False, padding=14),
        axis=alt.Axis(tickCount=6),
    )
    y = alt.Y(
        "accuracy:Q",
        title=f"{split} accuracy",
        scale=alt.Scale(zero=False, padding=14),
        axis=alt.Axis(format=".1%", tickCount=6),
    )
    about = tips(
        ("series", "backend, mode"), ("time", "training"), ("share", f"{split} accuracy"), ("round", "round")
    )
    points = alt.Chart(values(rows)).mark_point(filled=True, size=70, opacity=0.75)
    chart = points.encode(x=x, y=y, color=colour(study, rows), shape=shape(study, rows), tooltip=about)
    return Panel(group.heading, chart.properties(height=280))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [(group, split) for group in study.networks if (split := split_of(group))]
    if not groups:
        raise LeftOut("this report has no training by epochs with an accuracy: use assay run --epochs N")
    kept, note = most(groups, lambda pair: len(pair[0].cells), "comparison")
    return [panel(study, group, split) for group, split in kept], note


PLOT = Plot(
    "accuracy",
    "Training time against accuracy",
    "Each point is one whole training with its own seed; all backends get the same seeds. Further left is "
    "faster, further up has learnt more. Points of the same height learnt equally well; their times are "
    "the cost.",
    draw,
)
