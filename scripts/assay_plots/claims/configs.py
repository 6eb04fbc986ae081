"""The published entries of the configs, and the rows that have them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_plots.claims.catalogue import ROOT, Axes, Claim, ClaimError, spelling
from assay_plots.over_axis import WITHOUT
from assay_plots.text import clean

# Keys of a row that tell no cell of a config from another: a report may cut them, and says so.
_NOT_OF_A_CELL = frozenset(
    {"published", "samples", "forks", "blocks", "time-limit", "max-time", "until", "learning-rate"}
    | {"weight-decay", "clip-norm", "image-size", "classes", "layout", "scaling"}
)
# Every cell of a report has these; of other axes it names only what is not the default.
_FIELDS = frozenset(
    {
        "workload",
        "backend",
        "mode",
        "task",
        "precision",
        "batch",
        "dataset",
        "loader",
        "loader-workers",
        "size",
    }
    | {"cache", "optimizer", "threads", "compile-cache", "deterministic", "epochs", "steps"}
)
_ALWAYS = ("workload", "backend", "mode", "device")


@dataclass(frozen=True, slots=True)
class Entry:
    """A published number or statement."""

    metric: str
    value: float | None
    unit: str
    to: Axes | None
    statement: str
    source: str
    is_own_source: bool  # `source` is of the entry and not of the config


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """A row of a config: the axes that identify its cells, and its published entries."""

    axes: Axes
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Config:
    """A config as far as claims need it."""

    name: str
    title: str
    source: str
    rows: tuple[ConfigRow, ...]
    settings: tuple[dict[str, Any], ...]  # of each row: its own and those of the file


def _axes(of: dict[str, Any]) -> Axes:
    out: Axes = {}
    for key, value in of.items():
        if key in _NOT_OF_A_CELL or isinstance(value, dict):
            continue
        given = value if isinstance(value, list) else [value]
        if all(isinstance(one, str | int | float) for one in given):
            out[key] = tuple(spelling(one) for one in given)
    return out


def _entry(of: dict[str, Any], source: str) -> Entry:
    return Entry(
        of["metric"],
        of.get("value"),
        of.get("unit", ""),
        _axes(of["to"]) if "to" in of else None,
        clean(of.get("statement", ""), 400),
        clean(of.get("source", source), 400),
        "source" in of,
    )


def read_config(name: str, folder: Path = ROOT / "configs") -> Config:
    """Read a config by its name. Raises ClaimError."""
    path = folder / f"{name}.json"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ClaimError(f"{path}: cannot be read: {error}") from error
    source = document.get("source", "")
    shared = _axes({key: value for key, value in document.items() if key not in ("title", "source", "cells")})
    given = document.get("cells", [{}])
    axes = _rows_apart(shared, [_axes(row) for row in given])
    entries = [tuple(_entry(entry, source) for entry in row.get("published", ())) for row in given]
    rows = tuple(ConfigRow(*row) for row in zip(axes, entries, strict=True))
    settings = tuple({**document, **row} for row in given)
    return Config(name, document.get("title", ""), source, rows, settings)


def values_in(setting: Mapping[str, Any], key: str) -> list[str]:
    """Give the values that a setting has for a key."""
    given = setting.get(key, [])
    return list(map(spelling, given if isinstance(given, list) else [given]))


def _rows_apart(shared: Axes, rows: list[Axes]) -> list[Axes]:
    """Give each row the axes that any row sets: its own values, those of the file, or the default."""
    keys = [key for row in rows for key in row]
    out: list[Axes] = []
    for row in rows:
        axes: Axes = {}
        for key in dict.fromkeys((*_ALWAYS, *keys)):
            if values := row.get(key) or shared.get(key):
                axes[key] = values
            elif key == "device":
                axes[key] = ("cpu",)
            elif key not in _FIELDS:
                axes[key] = (WITHOUT.get(key, ""),)
        out.append(axes)
    return out


def may_hold(row: ConfigRow, cell: Axes) -> bool:
    """Whether a row can have cells that the selector wants."""
    return all(axis not in row.axes or set(row.axes[axis]) & set(wanted) for axis, wanted in cell.items())


def fits(claim: Claim, entry: Entry) -> bool:
    """Whether a claim is about a published entry of a row that has its cells."""
    if entry.metric != (claim.published_as or claim.metric):
        return False
    if claim.to_of_config:
        return entry.to is not None
    return entry.to == claim.to


def entries_of(claim: Claim, config: Config) -> list[tuple[ConfigRow, Entry]]:
    """Find the published entries behind a claim, one for each row of the config. Raises ClaimError."""
    found: list[tuple[ConfigRow, Entry]] = []
    for row in config.rows:
        entries = [entry for entry in row.entries if fits(claim, entry)] if may_hold(row, claim.cell) else []
        if len(entries) > 1:
            raise ClaimError(
                f"claim {claim.id}: a row of {config.name} has {len(entries)} published entries of "
                f"{claim.metric}; `to` must name the axes of one"
            )
        found += [(row, entry) for entry in entries]
    if not found:
        raise ClaimError(
            f"claim {claim.id}: no row of {config.name} with such cells has a published {claim.metric}"
            + (" with the same `to`" if claim.to else "")
        )
    return found
