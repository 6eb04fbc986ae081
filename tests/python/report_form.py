"""The two forms of a report: columns and an object of axes; in version 1 rows, and the axes in the cell."""

from __future__ import annotations

from typing import Any

from report_rows import rows

Json = dict[str, Any]
AXES = (
    *("workload", "backend", "device", "mode", "task", "precision", "layout", "batch", "dataset", "loader"),
    *("loader_workers", "optimizer", "threads", "compile_cache", "deterministic", "measure", "variant"),
    *("size", "cache"),
)  # fmt: skip
COLUMNS = ("blocks", "evaluations", "samples")
OFTEN_ZERO = ("wait_ns", "involuntary_switches", "major_faults", "steal_ns", "enqueue_ns")


def columns(rows: list[Json]) -> Json:
    """Write a column for each field, or the one value that all rows have."""
    lists: Json = {name: [row[name] for row in rows] for name in (rows[0] if rows else {})}
    same = {name: all(entry == column[0] for entry in column) for name, column in lists.items()}
    if len(rows) < 2 or all(same.values()):
        return lists
    lists = {name: column for name, column in lists.items() if name not in OFTEN_ZERO or any(column)}
    return {name: column[0] if same[name] else column for name, column in lists.items()}


def cell_2(cell: Json) -> Json:
    """The cell of version 1 in version 2."""
    out = {name: value for name, value in cell.items() if name not in AXES}
    out["axes"] = {name: cell[name] for name in AXES if name in cell}
    out["forks"] = [fork | {name: columns(fork[name]) for name in COLUMNS} for fork in cell["forks"]]
    equivalence = cell["equivalence"]
    out["equivalence"] = equivalence | {"tensors": columns(equivalence["tensors"])}
    return out


def cell_1(cell: Json) -> Json:
    """The cell of version 2 in version 1, with the fields that it required."""
    out = {name: value for name, value in cell.items() if name != "axes"} | cell["axes"]
    out.setdefault("published", [])
    empty = {"reason": "", "log_tail": "", "latencies_ns": [], "memory": {}, "settings": {}}
    empty |= {"parameters_digest": "", "operators": []}
    zeros: Json = {"loss": None, "epoch": 0} | dict.fromkeys(OFTEN_ZERO, 0)
    forks = []
    for fork in cell["forks"]:
        lists = {name: rows(fork.get(name, {})) for name in COLUMNS}
        lists["blocks"] = [zeros | block for block in lists["blocks"]]
        forks.append(empty | fork | lists)
    out["forks"] = forks
    missing: Json = {"lower": None, "upper": None, "confidence": None}
    out["metrics"] = {name: missing | metric for name, metric in cell["metrics"].items()}
    equivalence = {"reason": ""} | cell["equivalence"]
    out["equivalence"] = equivalence | {"tensors": rows(equivalence.get("tensors", {}))}
    return out


def version_2(report: Json) -> Json:
    return report | {"schema": "assay-report/2", "cells": [cell_2(cell) for cell in report["cells"]]}


def version_1(report: Json) -> Json:
    out = {name: report[name] for name in ("run", "environment")}
    return {"schema": "assay-report/1"} | out | {"cells": [cell_1(cell) for cell in report["cells"]]}
