"""scripts/plot: reports that are broken or changed are refused with their place, or drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import made_report
import pytest

pytest.importorskip("plotted")

from assay_plots import tables
from assay_plots.analysis import ReportError
from assay_plots.figure import draw
from assay_plots.findings import findings
from assay_plots.page import about
from assay_plots.plots import PLOTS
from assay_plots.summary import tiles, troubles, warnings
from plotted import PROGRAM, study_at


def refused(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "hostile.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ReportError) as error:
        study_at(path)
    return str(error.value)


def changed(path: str, value: str) -> str:
    """A report's text in which the field at `path` holds the JSON text `value`."""
    m = made_report.Maker()
    report: Any = made_report.report([m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, 2, 2))])
    at = report
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = "@@"
    return json.dumps(report).replace('"@@"', value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("cells.0.metrics.step_time.value", "NaN", "not valid JSON"),
        ("cells.0.metrics.step_time.value", "1e999", "out_of_range"),
        ("cells.0.metrics.step_time.value", "1e101", "the number is too large"),
        ("cells.0.metrics.step_time.value", "9" * 400, "overflow"),
        ("cells.0.metrics.step_time.value", "9" * 9000, "overflow"),
        ("cells.0.metrics.step_time.value", '"fast"', "string"),
        ("cells.0.metrics", "[]", "array"),
        ("cells.0.forks.1.blocks.begin_ns.2", "[1]", "array"),
        ("cells.0.forks.1", "7", "number"),
        ("cells.0.axes.batch", "true", "boolean"),
        ("cells.0.id", "null", "null"),
        ("cells.0", '"a"', "string"),
        ("cells", "{}", "object"),
        ("schema", '"assay-report/99"', "assay-report/99"),
        ("environment", "[]", "should be an object, is array"),
        ("environment", "[" * 100_000 + "]" * 100_000, "deep"),
    ],
)
def test_a_broken_report_is_refused_with_its_place(tmp_path: Path, path: str, value: str, said: str) -> None:
    refusal = refused(tmp_path, changed(path, value))
    assert said in refusal
    _, _, place = refusal.partition("hostile.json")
    for step in path.split("."):
        assert step in place
    assert len(refusal) < 2000


def test_a_report_without_cells_is_refused(tmp_path: Path) -> None:
    from assay_plots.__main__ import read

    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(made_report.report([])))
    with pytest.raises(ReportError, match="contains no cells"):
        read([file], "", PROGRAM)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    whole = json.dumps(made_report.report([]))
    for broken in (whole[:-1], whole + "{}", "[]"):
        assert "hostile.json: " in refused(tmp_path, broken)
    assert "at line 1, column" in refused(tmp_path, whole[:-1])
    assert "run" in refused(tmp_path, whole[:-1] + ', "run": {}}').partition("hostile.json")[2]
    assert "not valid JSON" in refused(tmp_path, b"\xff")
    assert "is a text in UTF-16" in refused(tmp_path, b"\xff\xfe")
    m = made_report.Maker()
    cell = m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, 1, 1))
    assert "is not unique" in refused(tmp_path, json.dumps(made_report.report([cell, cell])))


HOSTILE_VALUES = (
    None,
    True,
    -1,
    0,
    10**18,
    1e-300,
    "",
    "\ud800<b>",
    [],
    {},
    [[[]]],
    {"a": {"a": None}},
    "ok",
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*way, key))


def test_a_report_with_any_field_replaced_is_refused_or_drawn(tmp_path: Path) -> None:
    random = Random(3)
    m = made_report.Maker()
    report = made_report.report(
        [
            m.cell("onednn", "graph", "bare", m.epoch_forks(1e-3, 2, 2), measure="epochs:2"),
            m.cell("torch", "eager", "framework", m.epoch_forks(2e-3, 2, 2), measure="epochs:2"),
            m.op("op/relu", "onednn", "bare", "256", 2048.0, 256.0),
        ]
    )
    report["cells"][1]["published"] = [made_report.everything()["cells"][1]["published"][0]]
    ways = sorted(places(report), key=lambda way: (len(way), str(way)))
    refusals = 0
    shallow = [way for way in ways if 0 < len(way) <= 4]
    for way in random.sample(shallow, 40) + random.sample(ways, 40):
        changed = deepcopy(report)
        at: Any = changed
        for step in way[:-1]:
            at = at[step]
        if way:
            at[way[-1]] = random.choice(HOSTILE_VALUES)
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(changed))
        try:
            study = study_at(path)
        except ReportError as refusal:
            assert str(path) in str(refusal)
            refusals += 1
            continue
        for plot in PLOTS:
            draw(plot, study)
        findings(study), warnings(study), troubles(study), tiles(study)
        list(tables.rows(study)), list(tables.published(study))
        for one in study.reports:
            about(one), tables.environment(one.environment), tables.environment(one.run)
    assert 10 < refusals < 70
