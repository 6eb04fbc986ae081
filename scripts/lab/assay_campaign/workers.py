"""Hostile workers: each gives a row with a reason, the next cell is measured, and no process survives.

The table is tests/faults/variants.cpp, one line for each worker and the expected result of its cell.
"""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_campaign.bench import CONTROL, Bench, CampaignError, Case, Done, Place, read_report, remove

INCOMPLETE = 4
MAX_MEMORY = 1 << 30


@dataclass(frozen=True)
class Variant:
    """A hostile mode of the fault worker, and the expected result of its cell."""

    mode: str
    status: str
    words: str  # in the reason
    options: tuple[str, ...]

    @property
    def checked(self) -> bool:
        return "--check=true" in self.options


def variants_of(program: Path) -> list[Variant]:
    """Ask the fault worker next to the program for its table."""
    worker = program.parent / "tests/faults/fault_worker"
    done = subprocess.run([str(worker), "--variants"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CampaignError(f"{worker} --variants: exit code {done.returncode}: {done.stderr[-200:]}")
    return [
        Variant(one["mode"], one["status"], one["words"], tuple(one["options"]))
        for one in json.loads(done.stdout)
    ]


OWNED = re.compile(r"^\s*::error::owned", re.MULTILINE)


def config_of(variant: Variant) -> dict[str, object]:
    """Two cells: the hostile worker, and then one that behaves and can pass the check."""
    hostile: dict[str, object] = {"backend": "fault", "mode": variant.mode, "blocks": 3}
    good = hostile | {"mode": "good"}
    if variant.checked:
        good = {"backend": "reference", "steps": 4, "warm-up-steps": 1, "warm-up-seconds": 0}
    return {
        "workload": "mlp",
        "dataset": "synthetic",
        "samples": 100,
        "threads": 1,
        "check": False,
        "cells": [hostile, good],
    }


def run_variant(place: Place, variant: Variant, report: Path) -> Done:
    config = place.folder / "config.json"
    config.write_text(json.dumps(config_of(variant)))
    options = ("--forks", 2, "--spare-rounds", 0, *variant.options)
    return place.assay("run", config, *options, "--out", report, limit=600)


def hold(bench: Bench) -> None:
    place = bench.place("workers")
    variants = variants_of(bench.program)
    for case in bench.each_case():
        variant = variants[case.number % len(variants)]
        case.kind = variant.status
        report = place.out / "report.json"
        remove(report)
        try:
            done = run_variant(place, variant, report)
        except TimeoutError as error:
            case.expect(False, f"{variant.mode}: {error}")
            continue
        check(case, variant, done)
        if not report.exists():
            case.expect(False, f"{variant.mode}: no report: {done.told}")
            continue
        why = place.why_invalid(report)
        case.expect(not why, f"{variant.mode}: the report is invalid: {why}")
        check_rows(case, variant, read_report(report)["cells"])
        left = place.survivors() + place.leftovers()
        case.expect(not left, f"{variant.mode}: left: {', '.join(left)}")


def check_rows(case: Case, variant: Variant, rows: list[dict[str, Any]]) -> None:
    if len(rows) != 2:
        case.expect(False, f"{variant.mode}: {len(rows)} rows")
        return
    hostile, good = rows
    said = f"{hostile['status']}: {hostile['reason']}"
    case.expect(hostile["status"] == variant.status, f"{variant.mode}: wanted {variant.status}, got {said}")
    case.expect(variant.words in hostile["reason"], f"{variant.mode}: '{variant.words}' is not in {said}")
    case.expect(variant.status == "ok" or hostile["reason"] != "", f"{variant.mode}: no reason")
    measured = good["status"] == "ok" and len(good["forks"]) == 2
    case.expect(measured, f"{variant.mode}: the next cell is {good['status']}: {good['reason']}")


def check(case: Case, variant: Variant, done: Done) -> None:
    text = done.out + done.err
    wanted = 0 if variant.status == "ok" else INCOMPLETE
    case.expect(done.code == wanted, f"{variant.mode}: exit code {done.code}: {text[-300:]!r}")
    case.expect("fault of the program" not in text, f"{variant.mode}: {text[-300:]!r}")
    case.expect(done.max_rss <= MAX_MEMORY, f"{variant.mode}: took {done.max_rss >> 20} MB")
    if found := CONTROL.search(text):
        case.expect(False, f"{variant.mode}: prints the control character {found[0]!r}")
    case.expect(not OWNED.search(text), f"{variant.mode}: prints a line that a CI server obeys")
