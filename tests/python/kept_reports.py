"""Reports with forks of known times, as small or as large as a test wants them.

    python tests/python/kept_reports.py CELLS OUT [FORKS BLOCKS]

writes a valid one with so many cells, of 3 forks of 20 blocks where nothing else is said.
"""

from __future__ import annotations

import copy
import json
import random
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from report_form import cell_1, columns, version_1

GOLDEN = Path(__file__).resolve().parents[1] / "cli/data/report.json"
AXES = ("workload", "backend", "device", "mode", "task", "precision", "layout")


def identity(cell: dict[str, Any]) -> str:
    axes = cell["axes"]
    start = "/".join(axes[axis] for axis in AXES)
    rest = f"b{axes['batch']}/{axes['dataset']}/{axes['loader']}/{axes['optimizer']}/t{axes['threads']}"
    return f"{start}/{rest}/{axes['measure']}"


def blocks_of(nanoseconds: Sequence[int], steps: int) -> list[dict[str, Any]]:
    now, made = 1_000_000_000, []
    for length in nanoseconds:
        made.append(
            {
                "kind": "timed",
                "epoch": 0,
                "steps": steps,
                "begin_ns": now,
                "end_ns": now + length * steps,
                "wait_ns": 0,
                "cpu_ns": length * steps,
                "involuntary_switches": 0,
                "major_faults": 0,
                "steal_ns": 0,
                "loss": 0.5,
            }
        )
        now += length * steps + 1000
    return made


def set_metric(cell: dict[str, Any], name: str, values: list[float]) -> None:
    metric = cell["metrics"][name]
    metric |= {"value": statistics.median(values), "n": len(values)}
    for bound in ("lower", "upper", "confidence"):
        metric.pop(bound, None)


def report_of(cells: Sequence[Sequence[Sequence[int]]], steps: int = 10) -> dict[str, Any]:
    """Make a report; cells[i][fork] lists the nanoseconds a step of its blocks, and i is in the batch."""
    golden = json.loads(GOLDEN.read_text())
    report = golden | {"cells": []}
    template = golden["cells"][0]
    bare_fork = template["forks"][0] | {"evaluations": {}}
    for index, forks in enumerate(cells):
        cell = copy.deepcopy(template) | {"forks": []}
        cell["axes"]["batch"] = index + 1
        cell["id"] = identity(cell)
        # Those that are computed below, and one that has no value.
        kept = ("step_time", "samples_per_second", "host_peak_rss", "gpu_utilisation")
        cell["metrics"] = {name: cell["metrics"][name] for name in kept}
        for number, blocks in enumerate(forks):
            fork = bare_fork | {
                "round": number,
                "seed": 42 + number,
                "blocks": columns(blocks_of(blocks, steps)),
            }
            cell["forks"].append(fork)
        times = [1e-9 * statistics.median(blocks) for blocks in forks]
        set_metric(cell, "step_time", times)
        set_metric(
            cell, "samples_per_second", [cell["axes"]["batch"] / statistics.median(times)] * len(times)
        )
        set_metric(cell, "host_peak_rss", [bare_fork["host_peak_rss"]] * len(forks))
        reason = "evaluated only where epochs are run"
        none = {"value": None, "n": 0, "unit": "1", "hint": "percentage", "reason": reason}
        cell["metrics"]["test_accuracy"] = none
        report["cells"].append(cell)
    report["run"]["complete"] = True
    return report


def write_large(cells: int, out: TextIO, forks: int, blocks: int, seed: int = 1, version: int = 2) -> None:
    """Cell by cell, so that it takes no memory."""
    lot = random.Random(seed)
    head = report_of([])
    if version == 1:
        head = version_1(head)
    opening = {key: value for key, value in head.items() if key != "cells"}
    out.write(json.dumps(opening, indent=1)[:-2] + ',\n "cells": [\n')
    for index in range(cells):
        base = lot.uniform(1e5, 1e7)
        times = [[round(base * lot.lognormvariate(0, 0.02)) for _ in range(blocks)] for _ in range(forks)]
        cell = report_of([times])["cells"][0]
        cell["axes"]["batch"] = index + 1
        cell["id"] = identity(cell)
        per_fork = [1e-9 * statistics.median(each) for each in times]
        rate = cell["axes"]["batch"] / statistics.median(per_fork)
        set_metric(cell, "samples_per_second", [rate] * len(per_fork))
        lines = json.dumps(cell_1(cell) if version == 1 else cell)
        # As the program has it: in version 1 a line for each block.
        lines = lines.replace('{"kind"', '\n    {"kind"')
        out.write(("" if index == 0 else ",\n") + "  " + lines)
    out.write("\n ]\n}\n")


if __name__ == "__main__":
    count, path, *sizes = sys.argv[1:]
    fork_count, block_count = (int(size) for size in (sizes or (3, 20)))
    with Path(path).open("w") as file:
        write_large(int(count), file, fork_count, block_count)
