"""Writes lines of claims as Markdown, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from assay_plots.claims.catalogue import Claim
from assay_plots.claims.evaluate import NO_CELL, NO_CELLS, Line
from assay_plots.claims.verdict import Verdict
from assay_plots.report import Item, Study
from assay_plots.text import plural, shown, shown_interval

FORMATS = ("markdown", "json", "csv")
HEADS = ("claim", "cells", "published", "measured", "verdict")


def _hint(line: Line, study: Study) -> tuple[str, str]:
    """Say how a number of the line is best shown: a ratio without a unit, else as its metric."""
    if line.claim.is_ratio or line.claim.over or not line.claim.metric:
        return "number", "1"
    row = study.metrics[line.claim.metric]
    return row.hint, row.unit


def published_text(line: Line, study: Study) -> str:
    """Write what the config has as published."""
    if line.entry is None:
        return "–"
    hint, unit = _hint(line, study)
    said = [shown(line.entry.value, hint, unit)] if line.entry.value is not None else []
    said += [line.entry.statement] if line.entry.statement else []
    return "; ".join(said)


def ratio_text(ratio: Item, hint: str, unit: str) -> str:
    """Write a number with its interval; without one the extremes over rounds, which are no interval."""
    if ratio.lower is not None or ratio.n < 2 or ratio.least is None or ratio.greatest is None:
        return shown_interval(ratio.value, ratio.lower, ratio.upper, hint, unit)
    least, greatest = shown(ratio.least, hint, unit), shown(ratio.greatest, hint, unit)
    return f"{shown(ratio.value, hint, unit)} ({least} to {greatest})"


def measured_text(line: Line, study: Study) -> str:
    """Write what was measured; of several pairs the range of their values."""
    hint, unit = _hint(line, study)
    if not line.measured:
        return "–"
    if len(line.measured) == 1:
        return ratio_text(line.measured[0], hint, unit)
    values = [ratio.value for ratio in line.measured]
    low, high = shown(min(values), hint, unit), shown(max(values), hint, unit)
    return f"{low} to {high}, {plural(len(values), 'pair' if line.claim.is_ratio else 'cell')}"


def verdict_text(verdict: Verdict | None) -> str:
    """Write the verdict with its reason."""
    if verdict is None:
        return ""
    word = f"{verdict.word} ({verdict.where})" if verdict.where else verdict.word
    return f"{word}: {verdict.reason}" if verdict.reason else word


def sentence_of(claim: Claim) -> str:
    """Write the claim with the place where it is printed."""
    return f"{claim.sentence} ({claim.printed})" if claim.printed else claim.sentence


def what_of(line: Line) -> str:
    """Write the metric and the cells."""
    if not line.claim.metric:
        return "–"
    metric = f"{line.claim.metric} / {line.claim.over}" if line.claim.over else line.claim.metric
    return f"{metric}: {line.cells}"


def row_of(line: Line, study: Study) -> tuple[str, ...]:
    """Give the texts of a line in the order of HEADS."""
    return (
        sentence_of(line.claim),
        what_of(line),
        published_text(line, study),
        measured_text(line, study),
        verdict_text(line.verdict),
    )


def page_rows(lines: Sequence[Line], study: Study) -> list[tuple[str, ...]]:
    """Give the rows of a page: what a claim says about cells that no report has is one row."""
    absent: dict[str, list[Line]] = {}
    for line in lines:
        if line.verdict == NO_CELL:
            absent.setdefault(line.claim.id, []).append(line)
    rows: list[tuple[str, ...]] = []
    for line in lines:
        alike = absent.get(line.claim.id, []) if line.verdict == NO_CELL else [line]
        if line is not alike[0]:
            continue
        sentence, cells, published, measured, verdict = row_of(line, study)
        if len(alike) > 1:
            cells += f", and {len(alike) - 1} more"
            published = published if len({published_text(one, study) for one in alike}) == 1 else "several"
            verdict = verdict_text(NO_CELLS)
        rows.append((sentence, cells, published, measured, verdict))
    return rows


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table of GitHub-flavoured Markdown."""

    def escaped(text: str) -> str:
        for mark in ("\\", "|", "<", "*", "`"):
            text = text.replace(mark, "\\" + mark)
        return " ".join(text.split())

    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(map(escaped, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _ratio_object(ratio: Item) -> dict[str, Any]:
    names = ("value", "lower", "upper", "least", "greatest", "n")
    return {name: getattr(ratio, name) for name in names}


def object_of(line: Line, study: Study) -> dict[str, Any]:
    """Give a line with its numbers unrounded."""
    entry = line.entry
    return {
        "study": line.study,
        "id": line.claim.id,
        "claim": line.claim.sentence,
        "printed": line.claim.printed,
        "metric": line.claim.metric,
        "over": line.claim.over,
        "cells": line.cells,
        "published": None
        if entry is None
        else {"value": entry.value, "unit": entry.unit, "statement": entry.statement, "source": entry.source},
        "pairs": [
            {"cell": pair.cell.id, "other": pair.other.id if pair.other else None} for pair in line.pairs
        ],
        "measured": [_ratio_object(ratio) for ratio in line.measured],
        "verdict": line.verdict.word if line.verdict else None,
        "reason": line.verdict.reason if line.verdict else "",
        "where": line.verdict.where if line.verdict else "",
    }


Decided = Sequence[tuple[Study, Sequence[Line]]]


def as_markdown(decided: Decided) -> str:
    """Write one table of all studies."""
    rows = [(line.study, *row_of(line, study)) for study, lines in decided for line in lines]
    return markdown_table(("study", *HEADS), rows)


def as_json(decided: Decided) -> str:
    """Write the lines as strict JSON."""
    lines = [object_of(line, study) for study, lines in decided for line in lines]
    document = {"schema": "assay-judged-claims/1", "lines": lines}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


CSV_HEADS = ("study", "id", "cells", "published", "value", "lower", "upper", "rounds", "verdict", "reason")


def as_csv(decided: Decided) -> str:
    """Write one row for each pair of cells that was measured, and one for a claim without."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADS)
    for _, lines in decided:
        for line in lines:
            published = line.entry.value if line.entry and line.entry.value is not None else ""
            verdict = (line.verdict.word, line.verdict.reason) if line.verdict else ("", "")
            numbers: list[tuple[object, ...]] = [
                tuple("" if one is None else one for one in (r.value, r.lower, r.upper, r.n))
                for r in line.measured
            ]
            for number in numbers or [("", "", "", "")]:
                writer.writerow((line.study, line.claim.id, line.cells, published, *number, *verdict))
    return out.getvalue()


WRITERS = {"markdown": as_markdown, "json": as_json, "csv": as_csv}
