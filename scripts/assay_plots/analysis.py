"""Runs the program to analyze reports, and reads the data of the pictures from its JSON.

The program computes everything that is derived from a report. The document, described in
docs/reference/analysis.md, contains texts and numbers of the reports, which are not trusted.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from assay_plots.report import (
    Cell,
    CurvePoint,
    Evaluation,
    Family,
    Follower,
    Fork,
    Group,
    Growth,
    Heading,
    Leader,
    Metric,
    MetricRow,
    Phase,
    Plan,
    Published,
    Ratio,
    Report,
    Scaling,
    Study,
    Tensor,
    Timeline,
)
from assay_plots.text import clean

SCHEMA = "assay-analysis/1"
ROOT = Path(__file__).resolve().parents[2]
MAX_QUESTIONS = 2000  # in one call of the program
LARGEST = 1e100  # the largest number in a picture, so that no ratio or sum overflows
Json = dict[str, Any]
T = TypeVar("T")


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


def _number(value: Any, place: str) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not abs(number) <= LARGEST:
        raise ReportError(f"{place}: the number is too large")
    return number if abs(number) >= 1 / LARGEST else 0.0


def _finite(value: Any) -> float | None:
    return float(value) if value is not None and math.isfinite(value) else None


def _texts(words: Iterable[str], limit: int = 200) -> tuple[str, ...]:
    return tuple(clean(word, limit) for word in words)


def _each(items: Iterable[Json], make: Callable[[Json], T]) -> tuple[T, ...]:
    return tuple(make(item) for item in items)


def _metric(of: Json, place: str) -> Metric | None:
    value, lower, upper = (_number(of[name], f"{place}.{name}") for name in ("value", "lower", "upper"))
    if value is None:
        return None
    return Metric(value, clean(of["unit"], 20), lower, upper, of["n"], of["hint"])


def _ratio(of: Json | None) -> Ratio | None:
    if of is None or (value := _finite(of["value"])) is None:
        return None
    lower, upper, least, greatest = (_finite(of[name]) for name in ("lower", "upper", "least", "greatest"))
    return Ratio(value, lower, upper, of["n"], least, greatest)


def _published(of: Json, place: str) -> Published:
    return Published(
        clean(of["metric"], 80),
        _number(of["value"], f"{place}.value"),
        clean(of["unit"], 20),
        of["hint"],
        of["is_ratio"],
        of["other"],
        _ratio(of["measured"]),
        _finite(of["samples_per_second"]),
        clean(of["source"], 300),
        clean(of["statement"], 400),
    )


def _fork(of: Json, place: str) -> Fork:
    _number(of["compile_seconds"], f"{place}.compile_seconds")
    evaluations = tuple(
        Evaluation(
            e["epoch"],
            clean(e["split"], 40),
            _number(e["accuracy"], f"{place}.evaluations.accuracy"),
            e["after_seconds"],
        )
        for e in of["evaluations"]
    )
    return Fork(
        of["round"],
        of["status"],
        of["clean"],
        of["counted"],
        _texts(of["flags"]),
        _texts(of["warnings"])[:20],
        of["step_seconds"],
        of["off"],
        of["off_low"],
        of["off_high"],
        of["training_seconds"],
        {clean(split, 40): value for split, value in of["accuracy"].items() if abs(value) <= LARGEST},
        evaluations,
    )


def _curve(points: Iterable[Json]) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(**point) for point in points if all(abs(point[k]) <= LARGEST for k in point))


def _timeline(of: Json | None, place: str) -> Timeline | None:
    if of is None:
        return None
    phases = tuple(Phase(clean(phase["kind"], 40), phase["begin"], phase["end"]) for phase in of["phases"])
    cpu = tuple(_number(cores, f"{place}.samples.worker_cpu") or 0.0 for cores in of["cpu"])
    return Timeline(phases, tuple(of["times"]), cpu, tuple(of["gpu"]))


def _axis(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else clean(value)


def _library(of: Json) -> str:
    return f"{clean(of['name'], 80)} {clean(of['version'], 120)}".strip()


def _cell(of: Json, place: str) -> Cell:
    equivalence = of["equivalence"]
    metrics = {
        clean(name, 80): metric
        for name, inner in of["metrics"].items()
        if (metric := _metric(inner, f"{place}.metrics.{clean(name, 80)}"))
    }
    return Cell(
        id=clean(of["id"], 2000),
        report=of["report"],
        group=of["group"],
        mode=clean(of["mode"], 400),
        series=clean(of["series"], 400),
        axes={key: _axis(value) for key, value in of["axes"].items()},
        variant={clean(key, 80): clean(value) for key, value in (of["variant"] or {}).items()},
        is_op=of["is_op"],
        kind=clean(of["kind"], 40),
        status=of["status"],
        reason=clean(of["reason"], 1000),
        flags=_texts(of["flags"]),
        reproduce=clean(of["reproduce"], 4000),
        backend_version=clean(of["backend_version"], 120),
        libraries=_each(of["libraries"], _library),
        checked=equivalence["checked"],
        passed=equivalence["passed"],
        worst=_number(equivalence["worst"], f"{place}.equivalence.worst"),
        equivalence_reason=clean(equivalence["reason"], 600),
        tensors=tuple(
            Tensor(clean(t["name"], 120), _number(t["ratio"], f"{place}.equivalence.tensors.ratio"))
            for t in equivalence["tensors"]
        ),
        clean=of["clean"],
        rank=of["rank"],
        base=of["base"],
        ratio=_ratio(of["ratio"]),
        taxed=of["taxed"],
        to_fastest=_ratio(of["to_fastest"]),
        published=tuple(_published(p, f"{place}.published[{i}]") for i, p in enumerate(of["published"])),
        metrics=metrics,
        train_loss=_curve(of["train_loss"]),
        epoch_time=_curve(of["epoch_time"]),
        first_epoch_ratio=_finite(of["first_epoch_ratio"]),
        operators=tuple(
            (clean(one["op"], 80), _number(one["seconds"], f"{place}.operators.seconds") or 0.0)
            for one in of["operators"]
        ),
        spread=_finite(of["spread"]),
        work={name: _number(value, f"{place}.work.{name}") or 0.0 for name, value in of["work"].items()},
        memory_limit=_finite(of["memory_limit"]),
        arithmetic_limit=_finite(of["arithmetic_limit"]),
        forks=tuple(_fork(fork, f"{place}.forks[{i}]") for i, fork in enumerate(of["forks"])),
        timeline=_timeline(of["timeline"], place),
        log_tail=clean(of["log_tail"], 2000),
    )


def _heading(of: Json) -> Heading:
    return Heading(clean(of["title"], 400), clean(of["about"], 400))


def _leader(of: Json | None) -> Leader | None:
    if of is None:
        return None
    followers = tuple(Follower(clean(f["series"], 400), f["low"], f["high"]) for f in of["followers"])
    return Leader(clean(of["series"], 400), of["wins"], of["sizes"], of["sure"], followers)


def _study(head: Json, cells: list[Cell]) -> Study:
    groups = [
        Group(
            clean(of["title"], 400),
            _heading(of["heading"]),
            of["family"],
            of["is_op"],
            [cells[i] for i in of["cells"]],
            [cells[i] for i in of["in_rank"]],
            _texts(of["notes"], 600),
        )
        for of in head["groups"]
    ]
    families = [
        Family(
            clean(of["title"], 400),
            _heading(of["heading"]),
            of["is_op"],
            of["groups"],
            _leader(of["leader"]),
            tuple(Growth(clean(one["series"], 400), one["doubling"]["value"]) for one in of["growth"]),
        )
        for of in head["families"]
    ]
    metrics = [
        MetricRow(**{key: value for key, value in of.items() if key != "op_heading"})
        for of in head["metrics"]
    ]
    return Study(
        [
            Report(clean(of["label"]), of["run"], of["environment"], of["cells"], of["environments"])
            for of in head["reports"]
        ],
        cells,
        groups,
        families,
        [Plan(cells[of["cell"]], float(of["persistent"])) for of in head["plans"]],
        {row.name: row for row in metrics},
        list(dict.fromkeys(cell.series for cell in cells)),
        cells,
        [
            Scaling(of["cell"], of["base"], of["kind"], efficiency)
            for of in head["scaling"]
            if (efficiency := _ratio(of["efficiency"])) is not None
        ],
    )


def read_answers(
    paths: Sequence[Path], questions: Sequence[Asked], program: Path | None = None
) -> list[Ratio | None]:
    """Ask the program about cells of a study that was read without a filter. Raises ReportError."""
    found: list[Ratio | None] = []
    for i in range(0, len(questions), MAX_QUESTIONS):
        text = _ask(find_program(program), paths, "", questions[i : i + MAX_QUESTIONS])
        head = json.loads(text.partition('\n"cells": [\n')[0].rstrip(",") + "}")
        found += [_ratio(answer["measured"]) for answer in head["answers"]]
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
    try:
        cells = [
            _cell(json.loads(line.rstrip(",")), f"{where}: cells[{i}]")
            for i, line in enumerate(lines.split("\n")[:-2])
        ]
    except OverflowError as error:
        raise ReportError(f"{where}: a number is too large") from error
    for report, path in zip(head["reports"], paths, strict=True):
        for name in ("run", "environment"):
            if not isinstance(report[name], dict):
                raise ReportError(f"{path}: {name} is missing, or is not an object")
        if not all(isinstance(machine, dict) for machine in report["environments"]):
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
        replace(group, cells=group.in_rank[:limit], in_rank=group.in_rank[:limit]) for group in study.groups
    ]
    return replace(study, groups=groups, cells=[cell for group in groups for cell in group.cells])
