"""Runs the program to analyze reports, and reads the data of the pictures from its JSON.

The program computes everything that is derived from a report. The document, described in
docs/reference/analysis.md, contains texts and numbers of the reports, which are not trusted.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from assay_plots.report import Cell, Group, Item, NumberError, Study, read

SCHEMA = "assay-analysis/1"
ROOT = Path(__file__).resolve().parents[2]
MAX_QUESTIONS = 2000  # in one call of the program
Json = dict[str, Any]


class ReportError(Exception):
    """An error in a report, for people: file, place, and what to do."""


def find_program(given: Path | None = None) -> Path:
    """Find assay: what is given, $ASSAY_PROGRAM, the build folders, the same wheel, $PATH."""
    if named := given or os.environ.get("ASSAY_PROGRAM"):
        path = Path(named)
        if not path.is_file():
            raise ReportError(f"{path}: no such program; name it with --program or $ASSAY_PROGRAM")
        return path
    for build in ("release", "dev"):
        if (path := ROOT / "build" / build / "assay").is_file():
            return path
    if (path := Path(__file__).resolve().parents[1] / "assay_program/bin/assay").is_file():
        return path  # of the same wheel
    if found := shutil.which("assay"):
        return Path(found)
    raise ReportError(
        "the program assay, which analyzes the reports, is not built: run scripts/quickstart "
        "(or name a program with --program FILE or $ASSAY_PROGRAM)"
    )


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric of a cell, or its ratio to one of another cell; cells by their places in Study.all_cells."""

    metric: str
    other_metric: str  # empty: the same
    cell: int
    other: int | None

    def text(self) -> str:
        metrics = f"{self.metric}/{self.other_metric}" if self.other_metric else self.metric
        return f"{metrics},{self.cell}" + ("" if self.other is None else f",{self.other}")


def _ask(program: Path, paths: Sequence[Path], filter_text: str, questions: Sequence[Asked] = ()) -> str:
    command = [str(program), "show", "--format", "json", *(str(path.absolute()) for path in paths)]
    command += ["--filter", filter_text] if filter_text else []
    command += [f"--ask={question.text()}" for question in questions]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ReportError(said.removeprefix("assay: ") or f"{program} ended with {done.returncode}")
    return done.stdout.decode("utf-8")


def _read(value: Any, name: str, where: str) -> Any:
    try:
        return read(value, name)
    except NumberError as error:
        raise ReportError(f"{where}{error}: the number is too large") from error


def _study(head: Json, cells: list[Cell]) -> Study:
    for group in head["groups"]:
        group.cells = [cells[i] for i in group.cells]
        group.in_rank = [cells[i] for i in group.in_rank]
    for plan in head["plans"]:
        plan.cell = cells[plan.cell]
    return Study(
        head["reports"],
        cells,
        head["groups"],
        head["families"],
        head["plans"],
        {row.name: row for row in head["metrics"]},
        list(dict.fromkeys(cell.series for cell in cells)),
        cells,
        [one for one in head["scaling"] if one.efficiency is not None],
    )


def read_answers(
    paths: Sequence[Path], questions: Sequence[Asked], program: Path | None = None
) -> list[Item | None]:
    """Ask the program about cells of a study that was read without a filter. Raises ReportError."""
    found: list[Item | None] = []
    for i in range(0, len(questions), MAX_QUESTIONS):
        text = _ask(find_program(program), paths, "", questions[i : i + MAX_QUESTIONS])
        head = json.loads(text.partition('\n"cells": [\n')[0].rstrip(",") + "}")
        where = ", ".join(str(path) for path in paths)
        found += [answer.measured for answer in _read(head["answers"], "answers", f"{where}: answers")]
    return found


def read_study(paths: Sequence[Path], filter_text: str = "", program: Path | None = None) -> Study:
    """Analyze the cells whose id contains one of the texts of the filter. Raises ReportError."""
    where = ", ".join(str(path) for path in paths)
    text = _ask(find_program(program), paths, filter_text)
    # One line per cell, and strings contain no line ends: a large document is never in memory as objects.
    start, _, lines = text.partition('\n"cells": [\n')
    head = json.loads(start.rstrip(",") + "}")
    if head.get("schema") != SCHEMA:
        raise ReportError(
            f"{find_program(program)} writes {head.get('schema')}; these pictures need {SCHEMA}"
        )
    cells: list[Cell] = [
        _read(json.loads(line.rstrip(",")), "cell", f"{where}: cells[{i}]")
        for i, line in enumerate(lines.split("\n")[:-2])
    ]
    head = {name: _read(value, name, f"{where}: {name}") for name, value in head.items()}
    order = {axis.key: i for i, axis in enumerate(head["axes"])}  # an object of JSON has none
    for cell in cells:
        cell.axes = dict(sorted(cell.axes.items(), key=lambda axis: order.get(axis[0], len(order))))
    for report, path in zip(head["reports"], paths, strict=True):
        for name in ("run", "environment"):
            if not isinstance(getattr(report, name), dict):
                raise ReportError(f"{path}: {name} is missing, or is not an object")
        if not all(isinstance(machine, dict) for machine in report.environments):
            raise ReportError(f"{path}: an entry of environments is not an object")
    ids: set[tuple[int, str]] = set()
    for i, cell in enumerate(cells):
        if (cell.report, cell.id) in ids:
            raise ReportError(
                f"{where}: cells[{i}]: the id {cell.id} is not unique: ids are unique in a report"
            )
        ids.add((cell.report, cell.id))
    return _study(head, cells)


def of_at_most(study: Study, limit: int) -> Study:
    """Return the study with the first `limit` cells of each group by rank; itself if no group has more."""
    if all(len(group.cells) <= limit for group in study.groups):
        return study
    groups = [
        Group(**vars(group) | {"cells": group.in_rank[:limit], "in_rank": group.in_rank[:limit]})
        for group in study.groups
    ]
    return replace(study, groups=groups, cells=[cell for group in groups for cell in group.cells])
