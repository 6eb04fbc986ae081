"""Training time against accuracy: each repeat is a point (Paltenghi et al. 2020, benchmark C)."""

from __future__ import annotations

import altair as alt

from assay_plots.figure import LeftOut, Panel, Plot, Row, colour, is_wide, most, shape, tips, values
from assay_plots.report import Cell, Group, Published, Study
from assay_plots.text import shown
from assay_plots.theme import PUBLISHED

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


def published_point(study: Study, cell: Cell, split: str) -> list[Row]:
    """Give the point that a study published: both numbers, neither of them a ratio to another cell."""
    if study.reports[cell.report].run.get("quick") is True or not repeats(cell, split):
        return []

    def entry(metric: str) -> Published | None:
        return next((one for one in cell.published if one.metric == metric and not one.is_ratio), None)

    time, accuracy = entry("training_time"), entry(f"{split}_accuracy")
    if not time or not accuracy or time.value is None or accuracy.value is None:
        return []
    text = f"{shown(time.value, 'duration', 's')}, {100 * accuracy.value:.2f} %"
    return [
        {"series": cell.series, "published": time.value, "reached": accuracy.value}
        | {"text": text, "source": time.said}
    ]


def marks_of(study: Study, group: Group, split: str) -> list[Row]:
    return [mark for cell in group.cells for mark in published_point(study, cell, split)]


def panel(study: Study, group: Group, split: str) -> Panel:
    rows = [row for cell in group.cells for row in repeats(cell, split)]
    marks = marks_of(study, group, split)
    seconds = [row["seconds"] for row in rows] + [mark["published"] for mark in marks]
    logarithmic = alt.Scale(type="log", nice=False, padding=14)
    x = alt.X(
        "seconds:Q",
        title="seconds of training, compilation included",
        scale=logarithmic if is_wide(seconds) else alt.Scale(zero=False, padding=14),
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
    hue = colour(study, rows)
    layers = [points.encode(x=x, y=y, color=hue, shape=shape(study, rows), tooltip=about)]
    if marks:
        diamonds = alt.Chart(values(marks)).mark_point(
            shape="diamond", size=130, fill=PUBLISHED, strokeWidth=2.5, opacity=1
        )
        said = tips(("series", "backend, mode"), ("text", "published"), ("source", "by"))
        layers.append(diamonds.encode(x="published:Q", y="reached:Q", color=hue, tooltip=said))
    return Panel(group.heading, alt.layer(*layers).properties(height=280))


def draw(study: Study) -> tuple[list[Panel], str]:
    groups = [(group, split) for group in study.networks if (split := split_of(group))]
    if not groups:
        raise LeftOut("this report has no training by epochs with an accuracy: use assay run --epochs N")
    kept, note = most(groups, lambda pair: len(pair[0].cells), "comparison")
    if any(marks_of(study, group, split) for group, split in kept):
        note = f"◆ is what others published; its edge has the colour of its series. {note}"
    return [panel(study, group, split) for group, split in kept], note.strip()


PLOT = Plot(
    "accuracy",
    "Training time against accuracy",
    "Each point is one whole training with its own seed; all backends get the same seeds. Further left is "
    "faster, further up has learnt more. Points of the same height learnt equally well; their times are "
    "the cost. Where times differ more than twentyfold, their axis is logarithmic.",
    draw,
)
