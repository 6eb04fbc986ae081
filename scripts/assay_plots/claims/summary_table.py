"""Writes the first table of the results: a line for each family, and one for all that no machine here has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from assay_plots.claims.catalogue import Claim, Family, StudyOf
from assay_plots.claims.configs import Entry, entries_of, read_config
from assay_plots.claims.evaluate import Line
from assay_plots.claims.output import markdown_table
from assay_plots.claims.verdict import ABSENT, UNDECIDED, UNMEASURED, VERDICTS
from assay_plots.report import Study
from assay_plots.text import plural, shown

HEADS = ("study", "claims", "published", "measured", "verdict", "machine")
WITHOUT_A_SAMPLE = "Studies without a sample"
LONGEST_REASON = 110


def anchor(title: str) -> str:
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _range(values: Sequence[float], hint: str, unit: str) -> str:
    low, high = shown(min(values), hint, unit), shown(max(values), hint, unit)
    return low if low == high else f"{low} to {high}"


def _hint(claim: Claim, study: Study) -> tuple[str, str]:
    if claim.is_ratio or claim.over or not claim.metric:
        return "number", "1"
    row = study.metrics[claim.metric]
    return row.hint, row.unit


def _published(entries: Iterable[tuple[Claim, Entry]], study: Study) -> str:
    by_form: dict[tuple[str, str], list[float]] = {}
    is_silent = False
    for claim, entry in entries:
        if entry.value is None:
            is_silent = True
        else:
            by_form.setdefault(_hint(claim, study), []).append(entry.value)
    found = [_range(values, *form) for form, values in by_form.items()]
    return "; ".join(found + ["no number"] * is_silent) or "no number"


def _measured(lines: Sequence[Line], study: Study) -> str:
    by_form: dict[tuple[str, str], list[float]] = {}
    for line in lines:
        by_form.setdefault(_hint(line.claim, study), []).extend(one.value for one in line.measured)
    found = [(form, values) for form, values in by_form.items() if values]
    return "; ".join(_range(values, *form) for form, values in found) or "–"


def _verdict(lines: Sequence[Line]) -> str:
    """Count the verdicts; if nothing is decided, say why."""
    verdicts = [line.verdict for line in lines if line.verdict]
    words = [verdict.word for verdict in verdicts]
    if set(words) <= {ABSENT}:
        return ABSENT
    counted = [f"{words.count(word)} {word}" for word in VERDICTS if word in words]
    reasons = dict.fromkeys(verdict.reason for verdict in verdicts if verdict.word == UNDECIDED)
    if set(words) - {UNDECIDED, ABSENT, UNMEASURED} or not reasons:
        return ", ".join(counted)
    first = next(iter(reasons))
    more = f" ({len(reasons)} reasons)" if len(reasons) > 1 else ""
    cut = first if len(first) <= LONGEST_REASON else f"{first[:LONGEST_REASON].rsplit(' ', 1)[0]} …"
    return f"{', '.join(counted)}: {cut}{more}"


def _machine(lines: Sequence[Line], study: Study) -> str:
    names = []
    for line in (line for line in lines if line.measured):
        for pair in line.pairs:
            if pair.asked is None:
                continue
            processor = study.reports[pair.cell.report].machines[0]["cpu"]
            count = plural(processor["allowed"], "processor")
            names.append(f"{processor['model']}, {count}, {pair.cell.axes['device']}")
    return "; ".join(dict.fromkeys(names)) or "–"


def _row(
    study_of: StudyOf, family: Family, study: Study | None, lines: Sequence[Line], metrics: Study
) -> tuple[str, ...]:
    claims = [claim for claim in study_of.claims if claim.id in family.claims]
    entries = [
        (claim, entry)
        for claim in claims
        if claim.published
        for _, entry in entries_of(claim, read_config(claim.config))
    ]
    title = study_of.title if study_of.samples else WITHOUT_A_SAMPLE
    name = f"[{family.study}](#{anchor(title)})"
    of_family = [line for line in lines if line.claim.id in family.claims]
    published = _published(entries, metrics)
    if study is None:
        return name, family.name, published, "–", UNMEASURED, "–"
    measured, verdict = _measured(of_family, study), _verdict(of_family)
    return name, family.name, published, measured, verdict, _machine(of_family, study)


def summary_table(
    studies: Sequence[StudyOf], decided: dict[str, tuple[Study, list[Line]]], metrics: Study
) -> str:
    """Write the lines. `metrics`: any study that has been read, for their units."""
    rows = []
    absent = [one for one in studies if not one.samples and not one.unmeasured]
    for study_of in (one for one in studies if one not in absent):
        study, lines = decided.get(study_of.name, (None, []))
        rows += [_row(study_of, family, study, lines, metrics) for family in study_of.families]
    if others := [family for one in absent for family in one.families]:
        named = ", ".join(dict.fromkeys(family.study for family in others))
        what = "; ".join(family.name for family in others)
        rows.append((f"[{named}](#{anchor(WITHOUT_A_SAMPLE)})", what, "see there", "–", ABSENT, "–"))
    return markdown_table(HEADS, rows)
