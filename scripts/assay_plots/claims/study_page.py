"""The parts of a page that a study adds: its text, and its claims with their verdicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from assay_plots.analysis import read_study
from assay_plots.claims.catalogue import ROOT, StudyOf
from assay_plots.claims.evaluate import Line
from assay_plots.claims.numbers import filled
from assay_plots.claims.output import HEADS, page_rows, row_of
from assay_plots.claims.published import DIFFERENCES, VALUES, difference_rows, value_rows
from assay_plots.claims.results_page import read_text
from assay_plots.page import Section, plain_table, section
from assay_plots.report import Study

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`([^`]*)`")
_BOLD = re.compile(r"\*\*([^*]*)\*\*")


def _inline(text: str) -> str:
    text = escape(_LINK.sub(r"\1", text))
    return _BOLD.sub(r"<b>\1</b>", _CODE.sub(r"<code>\1</code>", text))


def html_of(text: str) -> str:
    """Write the text of a study as HTML: paragraphs, lists and blocks of code."""
    out: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip()):
        lines = block.splitlines()
        if all(line.startswith("    ") for line in lines):
            out.append(f"<pre>{escape(chr(10).join(line[4:] for line in lines))}</pre>")
        elif block.startswith("- "):
            items = re.split(r"\n- ", block[2:])
            out.append(
                "<ul>" + "".join(f"<li>{_inline(' '.join(item.split()))}</li>" for item in items) + "</ul>"
            )
        else:
            out.append(f"<p>{_inline(' '.join(block.split()))}</p>")
    return "\n".join(out)


def text_of(study_of: StudyOf, program: Path | None) -> str:
    """Return the text of a study, with the numbers of its samples."""
    text = read_text(study_of.text)
    paths = [ROOT / sample for sample in study_of.samples]
    return filled(text, read_study(paths, "", program), paths, program) if paths else text


def sections_of(
    study_of: StudyOf,
    study: Study,
    lines: Sequence[Line],
    more: Sequence[Line],
    values: Sequence[Line],
    program: Path | None = None,
) -> list[Section]:
    """Give the sections that come before the pictures. `values` are those of the study."""
    text = html_of(text_of(study_of, program))
    if differ := difference_rows(study_of, study):
        text += plain_table(DIFFERENCES, differ)
    out = [("study", "The study", section("study", "The study", text))]
    if lines:
        caption = (
            '<p class="caption">Ratios are paired within rounds. Brackets hold an interval; '
            "parentheses hold the extremes of fewer than six rounds, which decide nothing.</p>"
        )
        table = plain_table(HEADS, page_rows(lines, study))
        out.append(
            ("claims", "Claims", section("claims", "Its claims, and what holds here", caption + table))
        )
    if values:
        table = plain_table(VALUES, value_rows(study_of, values, study))
        out.append(("values", "Values", section("values", "Values of the study", table)))
    if more:
        table = plain_table(
            ("what", "cells", "ratio"), [(r[0], r[1], r[3]) for r in (row_of(m, study) for m in more)]
        )
        out.append(("compared", "Compared", section("compared", "Compared next to it", table)))
    return out
