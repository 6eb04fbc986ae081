"""Writes results/README.md from the shipped samples, the catalogue and a text for each study."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from assay_plots.analysis import Asked, read_answers
from assay_plots.claims.catalogue import ROOT, ClaimError, StudyOf
from assay_plots.claims.evaluate import Line, evaluate, read_for
from assay_plots.claims.numbers import filled
from assay_plots.claims.output import (
    HEADS,
    markdown_table,
    page_rows,
    ratio_text,
    row_of,
    verdict_text,
)
from assay_plots.claims.published import (
    DIFFERENCES,
    VALUES,
    difference_rows,
    value_rows,
    values_of,
)
from assay_plots.claims.summary_table import WITHOUT_A_SAMPLE, summary_table
from assay_plots.claims.trust import marks_of
from assay_plots.claims.verdict import ABSENT, UNMEASURED, VERDICTS, Verdict
from assay_plots.over_axis import CONTESTANT
from assay_plots.report import Cell, Item, Study

ORIGIN = ("sample", "day", "commit", "cells", "forks", "do not count", "error, of its bound")
INTRODUCTION = ROOT / "results/studies/introduction.md"
SUMMARY = "<!-- summary -->\n"  # where the introduction has the first table
MADE = (
    "<!-- Made by scripts/claims --results from results/claims.json, results/studies and results/samples. -->"
)


def read_text(path: str) -> str:
    """Read a text of the catalogue. Raises ClaimError."""
    try:
        return (ROOT / path).read_text(encoding="utf-8").strip() + "\n"
    except OSError as error:
        raise ClaimError(f"{path}: {error.strerror}") from error


def _axes_that_differ(cells: Sequence[Cell]) -> list[str]:
    keys = [key for key in cells[0].axes if key not in CONTESTANT]
    return [key for key in keys if len({cell.axes[key] for cell in cells}) > 1]


def _value(study: Study, ratio: Item | None, metric: str) -> str:
    if ratio is None:
        return "–"
    row = study.metrics[metric]
    return ratio_text(ratio, row.hint, row.unit)


def measured_table(study_of: StudyOf, study: Study, paths: Sequence[Path], program: Path | None) -> str:
    """Write the chosen metrics of every cell that was measured."""
    cells = [(i, cell) for i, cell in enumerate(study.all_cells) if cell.status == "ok"]
    if not cells or not study_of.columns:
        return ""
    asked = [Asked(metric, "", i, None) for i, _ in cells for metric in study_of.columns]
    answers = dict(zip(asked, read_answers(paths, asked, program), strict=True))
    differing = _axes_that_differ([cell for _, cell in cells])
    rows = []
    for i, cell in cells:
        values = [_value(study, answers[Asked(m, "", i, None)], m) for m in study_of.columns]
        name = f"{cell.axes['backend']} {cell.mode}"
        rows.append([*(cell.axes[key] for key in differing), name, *values, str(len(cell.counted_forks()))])
    heads = [*(key.replace("_", " ") for key in differing), "backend, mode"]
    heads += [study.metrics[metric].heading for metric in study_of.columns] + ["forks"]
    return markdown_table(heads, rows)


def command_of(study_of: StudyOf, sample: str, run: Mapping[str, Any]) -> str:
    """Write the command that measures the cells of a sample, as its report has it."""
    words = [str(word) for word in run["command_line"][1:]]
    for option in ("--out", "--filter") if sample in study_of.filters else ("--out",):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    if sample in study_of.filters:
        words += ["--filter", study_of.filters[sample]]
    return shlex.join(["assay", *words])


def _origin(study_of: StudyOf, study: Study) -> str:
    """Say how the samples were measured, and what of them counts."""
    lines = ["Measured by:\n"]
    rows = []
    for i, (sample, report) in enumerate(zip(study_of.samples, study.reports, strict=True)):
        lines.append(f"    {command_of(study_of, sample, report.run)}")
        cells = [cell for cell in study.all_cells if cell.report == i]
        forks = [fork for cell in cells for fork in cell.forks]
        checked = [cell.equivalence.worst for cell in cells if cell.equivalence.passed]
        rows.append(
            (
                Path(sample).name.partition(".")[0],
                str(report.run.get("start", ""))[:10],
                ", ".join([str(report.run.get("commit", ""))[:8], *marks_of(report.run)]),
                str(len(cells)),
                str(len(forks)),
                str(sum(not fork.clean for fork in forks)),
                f"{100 * max(checked):.0f} %" if checked else "–",
            )
        )
    return "\n".join(lines) + "\n\n" + markdown_table(ORIGIN, rows)


def _section(
    study_of: StudyOf, study: Study, lines: list[Line], more: list[Line], program: Path | None
) -> str:
    paths = [ROOT / sample for sample in study_of.samples]
    text = filled(read_text(study_of.text), study, paths, program)
    parts = [f"## {study_of.title}\n", text, _origin(study_of, study)]
    if differ := difference_rows(study_of, study):
        parts += ["### What differs\n", markdown_table(DIFFERENCES, differ)]
    if table := measured_table(study_of, study, paths, program):
        parts += ["### Measured\n", table]
    if more:
        rows = [_comparison(line, study) for line in more]
        parts += ["### Compared\n", markdown_table(("what", "cells", "ratio"), rows)]
    if values := value_rows(study_of, values_of(study_of, study, paths, program), study):
        parts += ["### Values of the study\n", markdown_table(VALUES, values)]
    parts += ["### Claims\n", markdown_table(HEADS, page_rows(lines, study))]
    return "\n".join(parts)


def _verdicts(lines: Sequence[Line]) -> str:
    """Count the verdicts of the page, and the intervals behind them that are expected to be wrong."""
    words = [line.verdict.word for line in lines if line.verdict]
    counted = [f"{words.count(word)} {word}" for word in VERDICTS if word in words]
    decided = sum(line.risk > 0 for line in lines)
    risk = sum(line.risk for line in lines)
    return (
        f"The verdicts below: {', '.join(counted)}.\n"
        f"Intervals decide {decided} of them. At their confidence, {risk:.1f} of the intervals are expected "
        "to miss the true number.\n"
    )


def _comparison(line: Line, study: Study) -> tuple[str, str, str]:
    sentence, cells, _, measured, _ = row_of(line, study)
    return sentence, cells, measured


def _waiting(study_of: StudyOf, study: Study) -> Iterator[tuple[str, ...]]:
    """List the claims of a study without a sample, and its other values. `study` has no cells."""
    for sentence, _, published, _, verdict in page_rows(evaluate(study_of, study, [])[0], study):
        why = Verdict(UNMEASURED, study_of.unmeasured)
        is_why = study_of.unmeasured and verdict.startswith(ABSENT)
        yield study_of.name, sentence, published, verdict_text(why) if is_why else verdict
    for what, printed, published, _ in value_rows(study_of, values_of(study_of, study, []), study):
        yield study_of.name, f"{what} ({printed})" if printed != "–" else what, published, ""


def results_page(studies: Sequence[StudyOf], program: Path | None = None) -> str:
    """Write the page of all studies that have samples. Raises ClaimError and ReportError."""
    sampled = [study for study in studies if study.samples]
    others = [study for study in studies if not study.samples]
    read = [read_for(one, [ROOT / sample for sample in one.samples], program) for one in sampled]
    lines = [line for _, found, _ in read for line in found]
    decided = {one.name: (study, found) for one, (study, found, _) in zip(sampled, read, strict=True)}
    table = summary_table(studies, decided, read[0][0]) if read else ""
    introduction = read_text(str(INTRODUCTION.relative_to(ROOT))).replace(SUMMARY, table)
    parts = [introduction, _verdicts(lines), MADE + "\n"]
    parts += [_section(one, *of_study, program) for one, of_study in zip(sampled, read, strict=True)]
    if others:
        parts += [f"## {WITHOUT_A_SAMPLE}\n"]
        parts += [markdown_table(("study", "what"), ((study.name, study.title) for study in others))]
        empty = replace(read[0][0], reports=[], cells=[], all_cells=[]) if read else None
        waiting = [row for study in others for row in _waiting(study, empty)] if empty else []
        heads = ("study", "claim or value", "published", "verdict")
        parts += ["### Their claims and values\n", markdown_table(heads, waiting)]
    return "\n".join(parts)
