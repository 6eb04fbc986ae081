"""Numbers in the text of a study, which the samples give.

`{METRIC: CELL}` is a metric of a cell. `{METRIC: CELL / CHANGES}` is its ratio to the cell of the same report
that differs in CHANGES. `{METRIC!FORM: …}` has another form: `value`, `interval`, `least`, `greatest` or
`rounds`. CELL is words that are its network, backend and mode, and `AXIS=VALUE`; `in=STEM` names the sample.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from assay_plots.analysis import Asked, read_answers
from assay_plots.claims import cells as of_cells
from assay_plots.claims.catalogue import Axes, ClaimError
from assay_plots.claims.output import ratio_text
from assay_plots.report import Cell, Item, Study
from assay_plots.text import shown

_NUMBER = re.compile(r"\{([a-z0-9_.]+)(?:!([a-z]+))?:\s([^{}]+)\}")
FORMS = ("", "value", "interval", "least", "greatest", "rounds")


def _axes(words: Sequence[str], study: Study, place: str) -> Axes:
    out: Axes = {}
    for word in words:
        axis, is_value, value = word.partition("=")
        if not is_value:
            named = [
                key
                for key in ("workload", "backend", "mode")
                if any(c.axes[key] == word for c in study.cells)
            ]
            if not named:
                raise ClaimError(f"{place}: no cell of the samples has {word}")
            axis, value = named[0], word
        out[axis] = (value,)
    return out


def _cell(text: str, study: Study, paths: Sequence[Path], place: str) -> int:
    axes = _axes(text.split(), study, place)
    (stem,) = axes.pop("in", ("",))
    found = [
        i
        for i, cell in enumerate(study.all_cells)
        if of_cells.has(cell, axes) and stem in ("", paths[cell.report].name.partition(".")[0])
    ]
    if len(found) != 1:
        ids = ", ".join(study.all_cells[i].id for i in found[:3]) or "none"
        raise ClaimError(f"{place}: {len(found)} cells of the samples are {text}, and it must be one: {ids}")
    return found[0]


def _question(found: re.Match[str], study: Study, paths: Sequence[Path]) -> Asked:
    place = f"number {found[0]}"
    metric, form, cells = found[1], found[2] or "", " ".join(found[3].split())
    if metric not in study.metrics:
        raise ClaimError(f"{place}: unknown metric {metric}")
    if form not in FORMS:
        raise ClaimError(f"{place}: unknown form {form}; known are {', '.join(FORMS[1:])}")
    left, is_ratio, right = cells.partition(" / ")
    here = _cell(left, study, paths, place)
    if not is_ratio:
        return Asked(metric, "", here, None)
    cell: Cell = study.all_cells[here]
    other = of_cells.other_side(cell, _axes(right.split(), study, place), study.all_cells)
    if other is None:
        raise ClaimError(f"{place}: no other cell of its report differs from it only so")
    return Asked(metric, "", here, next(i for i, one in enumerate(study.all_cells) if one is other))


def _text(asked: Asked, form: str, answer: Item | None, study: Study, place: str) -> str:
    if answer is None:
        raise ClaimError(f"{place}: it was not measured")
    row = study.metrics[asked.metric]
    hint, unit = (row.hint, row.unit) if asked.other is None else ("number", "1")
    if form == "":
        return ratio_text(answer, hint, unit)
    if form == "rounds":
        return str(answer.n)
    if form == "interval":
        low, high = (answer.least, answer.greatest) if answer.lower is None else (answer.lower, answer.upper)
        return f"{shown(low, hint, unit)} to {shown(high, hint, unit)}"
    return shown(getattr(answer, form), hint, unit)


def filled(text: str, study: Study, paths: Sequence[Path], program: Path | None) -> str:
    """Write the numbers of a text. `study` is of all samples of it. Raises ClaimError."""
    if wrong := re.search(r"\{[^}]*", _NUMBER.sub("", text)):
        raise ClaimError(f"number {wrong[0][:80]}: has not the form {{METRIC: CELL}}")
    found = list(_NUMBER.finditer(text))
    asked = [_question(one, study, paths) for one in found]
    wanted = list(dict.fromkeys(asked))
    answers = dict(zip(wanted, read_answers(paths, wanted, program), strict=True))
    texts = iter(
        _text(question, one[2] or "", answers[question], study, f"number {one[0]}")
        for one, question in zip(found, asked, strict=True)
    )
    return _NUMBER.sub(lambda _: next(texts), text)
