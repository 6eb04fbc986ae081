"""A study in a few numbers, its warnings, and the cells that did not end well."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from assay_plots.report import Cell, Report, Study
from assay_plots.text import clean, plural

ABSENT = ("unavailable", "unsupported")


@dataclass(frozen=True, slots=True)
class Tile:
    value: str
    what: str
    tone: str  # "good", "bad", "doubtful" or "plain"


@dataclass(frozen=True, slots=True)
class Warned:
    what: str
    remedy: str


def tiles(study: Study) -> list[Tile]:
    cells = study.cells
    ok = sum(cell.status == "ok" for cell in cells)
    absent = sum(cell.status in ABSENT for cell in cells)
    lost = sum(cell.status == "interrupted" for cell in cells)
    broken = len(cells) - ok - absent - lost
    checked = [cell for cell in cells if cell.equivalence.checked]
    wrong = sum(not cell.equivalence.passed for cell in checked)
    disturbed = sum(cell.status == "ok" and bool(cell.flags) for cell in cells)
    forks = [len(cell.counted_forks()) for cell in cells if cell.status == "ok"]
    out = [Tile(f"{ok:,} of {len(cells):,}", "measured", "good" if ok == len(cells) else "plain")]
    if checked:
        equal = f"{len(checked) - wrong:,} of {len(checked):,}"
        out.append(Tile(equal, "compute the same as the oracle", "bad" if wrong else "good"))
    else:
        out.append(Tile("none", "was compared with the oracle", "doubtful"))
    if broken:
        out.append(Tile(f"{broken:,}", "went wrong", "bad"))
    if lost:
        out.append(Tile(f"{lost:,}", "not yet measured", "doubtful"))
    if absent:
        out.append(Tile(f"{absent:,}", "not set up, or not supported", "plain"))
    out.append(Tile(f"{disturbed:,}", "disturbed, so not ranked", "doubtful" if disturbed else "good"))
    if forks:
        low, high = min(forks), max(forks)
        text = f"{low}" if low == high else f"{low}–{high}"
        out.append(Tile(text, "repeats (forks) of each", "plain" if low >= 6 else "doubtful"))
    return out


def _entries(of: Any) -> list[dict[str, Any]]:
    return [entry for entry in of if isinstance(entry, dict)] if isinstance(of, list) else []


def _about_report(report: Report) -> list[Warned]:
    out: list[Warned] = []
    run = report.run
    if run.get("quick") is True:
        out.append(Warned("this was a quick run: no measurement", "run it without --quick"))
    if run.get("complete") is not True:
        out.append(Warned("the run is not complete", "assay run --resume REPORT measures the missing cells"))
    if run.get("dirty") is True:
        out.append(
            Warned(
                "the program was built from files that differ from its commit", "commit, build and run again"
            )
        )
    config = run.get("config")
    overridden = config.get("overridden") if isinstance(config, dict) else None
    if isinstance(overridden, list) and overridden:
        options = ", ".join("--" + clean(str(option), 40) for option in overridden[:20])
        out.append(
            Warned(f"not the protocol as published: the command line set {options}", "leave the options out")
        )
    for rate in [rate for rate in report.flag_rates if rate.differs][:12]:
        what = f"{rate.flagged} of {rate.forks} forks of {rate.backend} have the flag {rate.flag}"
        out.append(
            Warned(
                f"{what}: not as often as the others of their rounds (p = {rate.p:.1g})",
                "see how its numbers change with the forks that count",
            )
        )
    for entry in [e for machine in report.machines for e in _entries(machine.get("unsteady"))][:50]:
        out.append(Warned(clean(str(entry.get("what", ""))), clean(str(entry.get("remedy", "")))))
    return out


def warnings(study: Study) -> list[Warned]:
    out: dict[Warned, None] = {}
    for report in study.reports:
        for warned in _about_report(report):
            several = len(study.reports) > 1
            out.setdefault(Warned(f"{report.label}: {warned.what}", warned.remedy) if several else warned)
    flags = Counter(flag for cell in study.cells for flag in cell.flags)
    for flag, count in flags.most_common(12):
        out.setdefault(
            Warned(
                f"{plural(count, 'cell')} flagged {flag}: shown pale and not ranked",
                "run again on a quiet machine",
            )
        )
    said = Counter(warning for cell in study.cells for fork in cell.forks for warning in fork.warnings)
    for warning, count in said.most_common(12):
        what, _, remedy = warning.partition(": ")
        out.setdefault(Warned(f"{plural(count, 'fork')}: {clean(what)}", clean(remedy)))
    few = sum(0 < len(cell.counted_forks()) < 6 for cell in study.cells)
    if few:
        out.setdefault(
            Warned(f"{plural(few, 'cell')} with fewer than six forks: no interval", "assay run --forks 6")
        )
    timed = [cell for cell in study.cells if cell.status == "ok" and cell.kind != "oracle"]
    unchecked = sum(not cell.equivalence.checked for cell in timed)
    if unchecked:
        out.setdefault(
            Warned(
                f"{plural(unchecked, 'cell')} not compared with the oracle: not ranked",
                "run without --check=false",
            )
        )
    return list(out)


@dataclass(frozen=True, slots=True)
class Trouble:
    status: str
    reason: str
    cells: list[Cell]


def troubles(study: Study) -> list[Trouble]:
    """Return the cells that did not end well, one entry per reason."""
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in study.cells:
        if cell.status != "ok":
            found.setdefault((cell.status, cell.reason), []).append(cell)
    return [Trouble(status, reason, cells) for (status, reason), cells in found.items()]
