"""Puts a study's claims to reports: a line for each claim and combination of its axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from assay_plots.analysis import Asked, read_answers, read_study
from assay_plots.claims import cells as of_cells
from assay_plots.claims.catalogue import ROOT, Axes, Claim, ClaimError, StudyOf, Withdrawal, spelling
from assay_plots.claims.configs import ConfigRow, Entry, entries_of, read_config
from assay_plots.claims.trust import ONE_PROCESS, ONE_SEED, doubt_of_pair, marks_of
from assay_plots.claims.verdict import (
    ABSENT,
    DECIDED,
    UNDECIDED,
    UNMEASURED,
    Verdict,
    against_another_loop,
    decide,
    together,
)
from assay_plots.over_axis import WITHOUT
from assay_plots.report import Cell, Item, Report, Study

_MISSING = ("unavailable", "unsupported")
NO_CELL = Verdict(ABSENT, "no report has such a cell")
NO_CELLS = Verdict(ABSENT, "no report has such cells")
CUT = ("batch", "epochs", "steps", "samples")  # a verdict names those that the command line set
MOST_NAMED = 4  # values of an axis in the name of a line
Answers = Callable[[Asked], Item | None]
Places = dict[int, int]  # id of a cell -> its place in Study.all_cells
Behind = Sequence[tuple[ConfigRow | None, Entry | None]]  # rows of a config with what is published there


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of a report, the other one if the claim is a ratio, and what was asked of them."""

    cell: Cell
    other: Cell | None
    asked: Asked | None  # None: `verdict` says why there is nothing to ask
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table of claims."""

    study: str
    claim: Claim
    entry: Entry | None
    cells: str
    pairs: tuple[Pair, ...]
    measured: tuple[Item, ...]
    verdict: Verdict | None  # None: a comparison that the study did not make
    risk: float = 0.0  # expected number of its intervals that decide and miss the true number


@dataclass(frozen=True, slots=True)
class _Open:
    claim: Claim
    entry: Entry | None
    cells: str
    pairs: tuple[Pair, ...]
    also: tuple[tuple[Pair, ...], ...]  # of each pair, the same cell with the claim's other partners


def overridden(report: Report) -> list[str]:
    """Name the axes and settings of a report's config that its command line changed."""
    config = report.run.get("config")
    names = config.get("overridden") if isinstance(config, dict) else None
    known = names if isinstance(config, dict) and isinstance(names, list) else []
    return [name for name in known if isinstance(name, str) and name in config]


def changed_axes(study: Study) -> set[str]:
    """Name the axes and settings of the configs that a command line changed."""
    return {name for report in study.reports for name in overridden(report)}


def _wanted(claim: Claim, row: ConfigRow | None, changed: set[str]) -> Axes:
    """Give the axes that pick the cells of a line: those of the row, narrowed by the claim's own."""
    wanted = {axis: values for axis, values in row.axes.items() if axis not in changed} if row else {}
    for axis, values in claim.cell.items():
        wanted[axis] = tuple(one for one in values if axis not in wanted or one in wanted[axis])
    return wanted


def _lines_of(claim: Claim, wanted: Axes, found: Sequence[Cell]) -> Iterator[Axes]:
    choices: list[tuple[str, ...]] = []
    for axis in claim.by:
        seen = dict.fromkeys(of_cells.value_of(cell, axis) for cell in found)
        choices.append(wanted.get(axis) or tuple(seen) or ("",))
    for combination in product(*choices):
        yield {axis: (one,) for axis, one in zip(claim.by, combination, strict=True) if one}


def _named(axes: Axes) -> str:
    """Write axes as words: workload, backend, mode and device, then the others with their names."""
    first = ("workload", "backend", "mode", "device")
    plain = " ".join(" or ".join(axes[axis]) for axis in first if axis in axes)
    others = [f"{axis.replace('-', ' ')} {' or '.join(axes[axis])}" for axis in axes if axis not in first]
    return ", ".join(([plain] if plain else []) + others)


def _about(claim: Claim, wanted: Axes, to: Axes | None) -> str:
    """Name the cells of a line: by what the claim picks, and by what the row has one value of."""
    shown = {
        axis: values
        for axis, values in wanted.items()
        if values != ("",)
        and values != (WITHOUT.get(axis),)
        and axis not in ("dataset", "loader")
        and (len(values) == 1 or axis in claim.cell or axis in ("workload", "mode", "backend"))
        and len(values) <= MOST_NAMED
    }
    return _named(shown) + (f" / {_named(to)}" if to else "")


def _absent(cell: Cell) -> Verdict | None:
    """Say why a cell has no number."""
    if cell.status == "ok":
        return None
    word = ABSENT if cell.status in _MISSING else UNDECIDED
    return Verdict(word, f"{cell.series}: {cell.reason or cell.status}")


def _where(cell: Cell, other: Cell | None, report: Report) -> str:
    """Name the device, the data and the loops of a pair, and what the command line cut."""

    def both(key: str) -> str:
        found = [cell.axes[key]] if other is None else [cell.axes[key], other.axes[key]]
        return " / ".join(dict.fromkeys(one for one in found if one))

    parts = [both("device"), both("dataset"), both("mode")]
    parts += [f"loader {both('loader')}" if not cell.is_op else ""]
    parts += [f"{key} {spelling(report.run['config'][key])}" for key in CUT if key in overridden(report)]
    return ", ".join(part for part in parts if part)


def _pair(claim: Claim, to: Axes | None, cell: Cell, study: Study, places: Places) -> Pair:
    if study.reports[cell.report].run.get("quick") is True:
        return Pair(cell, None, None, Verdict(UNDECIDED, "a quick run is not a measurement"))
    if absent := _absent(cell):
        return Pair(cell, None, None, absent)
    if to is None:
        here = places[id(cell)]
        return Pair(cell, None, Asked(claim.metric, claim.over, here, here if claim.over else None), None)
    other = of_cells.other_side(cell, to, study.all_cells)
    if other is None:
        return Pair(cell, None, None, Verdict(ABSENT, f"the report lacks the other side, {_named(to)}"))
    if absent := _absent(other):
        return Pair(cell, other, None, absent)
    return Pair(cell, other, Asked(claim.metric, "", places[id(cell)], places[id(other)]), None)


def _is_repeated(pair: Pair, every: Sequence[Pair]) -> bool:
    """Whether a pair without a number, such as of a cell that failed, has one in another report."""
    return pair.asked is None and any(
        other.asked is not None and other.cell.id == pair.cell.id for other in every
    )


def _behind(claim: Claim) -> Behind:
    return entries_of(claim, read_config(claim.config)) if claim.published else [(None, None)]


def _open_lines(claim: Claim, behind: Behind, study: Study) -> Iterator[_Open]:
    places = {id(cell): i for i, cell in enumerate(study.all_cells)}
    for row, entry in behind:
        wanted = _wanted(claim, row, changed_axes(study))
        to = entry.to if claim.to_of_config and entry else claim.to
        found = [cell for cell in study.cells if of_cells.has(cell, wanted)]
        found = [cell for cell in found if to is None or not of_cells.has(cell, to)]
        for line in _lines_of(claim, wanted, found):
            every = [_pair(claim, to, cell, study, places) for cell in found if of_cells.has(cell, line)]
            pairs = tuple(pair for pair in every if not _is_repeated(pair, every))
            cells = [pair.cell for pair in pairs]
            also = tuple(
                tuple(_pair(claim, one, cell, study, places) for one in claim.also) for cell in cells
            )
            yield _Open(claim, entry, _about(claim, wanted | line, to), pairs, also)


def _withdrawn(claim: Claim, pair: Pair, study: Study) -> Withdrawal | None:
    start = study.reports[pair.cell.report].run.get("start")
    sides = [pair.cell] if pair.other is None else [pair.cell, pair.other]
    return next(
        (
            one
            for one in claim.withdrawn
            if one.start == start and (not one.cell or any(of_cells.has(side, one.cell) for side in sides))
        ),
        None,
    )


def _verdict_of(
    pair: Pair, claim: Claim, entry: Entry | None, measured: Item | None, study: Study
) -> Verdict:
    if pair.verdict:
        return pair.verdict
    device = pair.cell.axes["device"]
    if claim.device not in ("", device):
        return Verdict(ABSENT, f"the claim is about {claim.device}, and this is {device}")
    if withdrawal := _withdrawn(claim, pair, study):
        return Verdict(UNDECIDED, f"withdrawn: {withdrawal.reason}")
    if measured is None:
        return Verdict(UNDECIDED, f"{claim.metric} was not measured")
    assert claim.rule is not None
    found = decide(claim.rule, entry.value if entry else None, measured, claim.exact)
    metrics = [study.metrics[name] for name in (claim.metric, claim.over) if name]
    doubts = [doubt_of_pair(pair.cell, pair.other, metric, claim.exact) for metric in metrics]
    doubt = next(filter(None, doubts), "")
    if found.word not in DECIDED:
        return Verdict(UNDECIDED, ONE_SEED) if doubt == ONE_SEED else found
    if doubt:
        seen = f"; in this one: {found.word}" if doubt == ONE_PROCESS else ""
        return Verdict(UNDECIDED, doubt + seen)
    marks = [found.reason, f"of {claim.subject}" if claim.subject else ""]
    marks += marks_of(study.reports[pair.cell.report].run)
    where = _where(pair.cell, pair.other, study.reports[pair.cell.report])
    return Verdict(found.word, "; ".join(mark for mark in marks if mark), where)


def _close(line: _Open, study: Study, name: str, answers: Answers) -> Line:
    def ask(pair: Pair) -> Item | None:
        return answers(pair.asked) if pair.asked else None

    measured = [ask(pair) for pair in line.pairs]
    known = tuple(one for one in measured if one is not None)
    if not line.claim.rule:
        return Line(name, line.claim, line.entry, line.cells, line.pairs, known, None)
    each = []
    risk = 0.0
    for pair, one, others in zip(line.pairs, measured, line.also, strict=True):
        found = _verdict_of(pair, line.claim, line.entry, one, study)
        if others:
            more = [_verdict_of(other, line.claim, None, ask(other), study) for other in others]
            found = against_another_loop([found, *more])
        each.append(found)
        if one is not None and found.word in DECIDED and not line.claim.exact:
            risk += 1 - one.confidence
    verdict = together(each) if each else NO_CELL
    return Line(name, line.claim, line.entry, line.cells, line.pairs, known, verdict, risk)


def line_without_cells(name: str, claim: Claim) -> Line:
    """Give the line of a claim that nothing measures."""
    return Line(name, claim, None, "", (), (), Verdict(UNMEASURED, claim.unmeasured))


def _check_metrics(study_of: StudyOf, study: Study) -> None:
    used = [(claim.id, metric) for claim in (*study_of.claims, *study_of.comparisons)
            for metric in (claim.metric, claim.over) if metric]  # fmt: skip
    used += [("columns", metric) for metric in study_of.columns]
    for where, metric in used:
        if metric not in study.metrics:
            raise ClaimError(f"study {study_of.name}, {where}: unknown metric {metric}")


def evaluate(
    study_of: StudyOf, study: Study, paths: Sequence[Path], program: Path | None = None
) -> tuple[list[Line], list[Line]]:
    """Decide the claims of a study, and measure its comparisons. Raises ClaimError and ReportError."""
    _check_metrics(study_of, study)
    measurable = [claim for claim in study_of.claims if not claim.unmeasured]
    others = [line_without_cells(study_of.name, claim) for claim in study_of.claims if claim.unmeasured]
    asked = [(claim, _behind(claim)) for claim in (*measurable, *study_of.comparisons)]
    lines = measure(study_of, asked, study, paths, program)
    more = [line for line in lines if not line.claim.rule and line.measured]
    return [line for line in lines if line.claim.rule] + others, more


def measure(
    study_of: StudyOf,
    claims: Sequence[tuple[Claim, Behind]],
    study: Study,
    paths: Sequence[Path],
    program: Path | None,
) -> list[Line]:
    """Put claims, each with the rows and entries behind it, to reports. Raises ReportError."""
    lines = [line for claim, behind in claims for line in _open_lines(claim, behind, study)]
    pairs = [pair for line in lines for pair in (*line.pairs, *(p for ps in line.also for p in ps))]
    asked = list(dict.fromkeys(pair.asked for pair in pairs if pair.asked))
    found = dict(zip(asked, read_answers(paths, asked, program), strict=True))
    return [_close(line, study, study_of.name, found.__getitem__) for line in lines]


def read_for(
    study_of: StudyOf, paths: Sequence[Path], program: Path | None = None
) -> tuple[Study, list[Line], list[Line]]:
    """Read reports of a study and put its claims to them."""
    study = read_study(paths, "", program)
    return (study, *evaluate(study_of, study, paths, program))


def is_of(study_of: StudyOf, study: Study, report: int, path: Path) -> bool:
    """Whether a report is a sample of the study, or was measured by a config of it or by a copy of one."""
    if path.resolve() in [ROOT / sample for sample in study_of.samples]:
        return True
    config = study.reports[report].run.get("config")
    if not isinstance(config, dict):
        return False
    titles = {read_config(name).title for name in study_of.configs}
    return config.get("name") in study_of.configs or config.get("title") in titles
