"""What a study measured on and the values that it gives, next to those of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from assay_plots.claims.catalogue import SETTING, StudyOf, without_cells
from assay_plots.claims.configs import ConfigRow, Entry, fits, may_hold, read_config, values_in
from assay_plots.claims.evaluate import Line, measure, overridden
from assay_plots.claims.output import measured_text, published_text, what_of
from assay_plots.report import Study

DIFFERENCES = ("what", "the study", "here")
VALUES = ("value", "printed", "published", "measured")
NAMES = {"gpu": "GPU", "torch": "PyTorch", "tensorflow": "TensorFlow", "mxnet": "MXNet"}
NONE = "–"


def left_over(study_of: StudyOf) -> Iterator[tuple[str, ConfigRow, Entry]]:
    """Give the published entries of a study's configs that no claim is about."""
    for name in study_of.configs:
        claims = [claim for claim in study_of.claims if claim.published and claim.config == name]
        for row in read_config(name).rows:
            for entry in row.entries:
                if not any(may_hold(row, claim.cell) and fits(claim, entry) for claim in claims):
                    yield name, row, entry


def values_of(
    study_of: StudyOf, study: Study, paths: Sequence[Path], program: Path | None = None
) -> list[Line]:
    """Measure what the study gives and no claim is about. Raises ReportError."""
    clocks = {claim.published_as: claim.metric for claim in study_of.claims if claim.published_as}
    claims = []
    for i, (config, row, entry) in enumerate(left_over(study_of)):
        metric = clocks.get(entry.metric, entry.metric)
        by = () if entry.value is None else ("device",)
        claim = without_cells(f"value-{i}", "", config, metric=metric, to=entry.to, by=by)
        claims.append((claim, [(row, entry)]))
    return measure(study_of, claims, study, paths, program)


def place_of(study_of: StudyOf, entry: Entry) -> str:
    """Say where the study has a value."""
    return entry.source if entry.is_own_source else study_of.printed or NONE


def value_rows(study_of: StudyOf, lines: Sequence[Line], study: Study) -> list[tuple[str, ...]]:
    """Give the texts of values in the order of VALUES."""
    return [
        (
            what_of(line),
            place_of(study_of, line.entry),
            published_text(line, study),
            measured_text(line, study),
        )
        for line in lines
        if line.entry
    ]


def _span(counts: Sequence[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _processor(machine: dict[str, Any]) -> str:
    cpu = machine.get("cpu")
    allowed = cpu.get("allowed") if isinstance(cpu, dict) else None
    model = cpu.get("model") if isinstance(cpu, dict) else None
    return f"{model or 'unnamed'}" + (f", {allowed} processors" if allowed else "")


def _here(key: str, study: Study) -> str:
    """Say what the samples were measured on."""
    machines = [machine for report in study.reports for machine in report.machines]
    if key == "processor":
        found = list(map(_processor, machines))
    elif key == "gpu":
        found = [str(gpu["model"]) for machine in machines for gpu in machine.get("gpus") or []]
    elif key == "repeats":
        counts = [len(cell.counted_forks()) for cell in study.all_cells if cell.status == "ok"]
        found = [_span(counts)] if counts else []
    else:
        cells = [cell for cell in study.all_cells if cell.axes["backend"] == key and cell.status == "ok"]
        found = [cell.backend_version for cell in cells]
    return ", ".join(dict.fromkeys(found)) or ("none" if key == "gpu" else NONE)


def _planned(study_of: StudyOf, study: Study, key: str) -> list[str]:
    """Give the values that the rows of the study's configs have, of those rows that the samples are of."""
    known = ["workload", "device"]
    if not any("dataset" in overridden(report) for report in study.reports):
        known.append("dataset")
    axes = {axis: {cell.axes[axis] for cell in study.all_cells} for axis in known}
    rows = [
        setting
        for name in study_of.configs
        for setting in read_config(name).settings
        if all(axis not in setting or axes[axis] & set(values_in(setting, axis)) for axis in known)
    ]
    return list(dict.fromkeys(value for setting in rows for value in values_in(setting, key)))


def _options(study_of: StudyOf, study: Study) -> Iterator[tuple[str, str, str]]:
    """Give the settings that the command lines of the samples changed."""
    for key in dict.fromkeys(name for report in study.reports for name in overridden(report)):
        planned = " or ".join(_planned(study_of, study, key)) or ("all" if key == "samples" else NONE)
        found = [
            " or ".join(values_in(report.run["config"], key)) if key in overridden(report) else planned
            for report in study.reports
        ]
        here = list(dict.fromkeys(found))
        if len(here) > 1:
            reports = zip(found, study.reports, strict=True)
            here = [f"{one} ({report.label.partition('.')[0]})" for one, report in reports]
        if here != [planned]:
            yield key, planned, ", ".join(here)


def difference_rows(study_of: StudyOf, study: Study) -> list[tuple[str, ...]]:
    """Say what differs between the study and the samples, in the order of DIFFERENCES."""
    rows: list[tuple[str, ...]] = [
        (NAMES.get(key, key), study_of.setting[key], _here(key, study))
        for key in SETTING
        if key in study_of.setting
    ]
    return rows + list(_options(study_of, study))
