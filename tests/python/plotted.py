"""For tests of scripts/plot: reports as studies, and the data of a picture.

A test that imports this is skipped where altair, vl-convert or the program is missing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, ROOT

pytest.importorskip("altair", reason="altair is not installed: scripts/setup")
pytest.importorskip("vl_convert", reason="vl-convert is not installed: scripts/setup")

from assay_plots.analysis import read_study
from assay_plots.figure import Figure, draw
from assay_plots.plots import PLOTS
from assay_plots.render import spec_of
from assay_plots.report import Study

GOLDEN = ROOT / "tests/cli/data/report.json"
Json = dict[str, Any]
if not PROGRAM.exists():
    pytest.skip(f"{PROGRAM} is not built", allow_module_level=True)

# Pictures of made_report.studies(); the others are of made_report.everything().
OF_STUDIES = (
    "networks",
    "speedup",
    "ranks",
    "exchange",
    "latency",
    "decoding",
    "profile",
    "schedules",
    "plans",
)


def study_at(*paths: Path) -> Study:
    return read_study(paths, program=PROGRAM)


def study_of(report: Json, folder: Path) -> Study:
    """Write the report into the folder and read it."""
    path = folder / "report.json"
    path.write_text(json.dumps(report))
    return study_at(path)


def drawn(study: Study, name: str) -> Figure:
    return draw(next(plot for plot in PLOTS if plot.name == name), study)


def rows_of(figure: Figure, field: str) -> list[Json]:
    """Every row of a figure's data that has the field."""
    found: list[Json] = []
    for panel in figure.panels:
        for rows in spec_of(panel)["datasets"].values():
            found += [row for row in rows if field in row]
    return found
