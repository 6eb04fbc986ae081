"""scripts/lab/record-noise: what it keeps of reports, and whether the simulation reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kept_reports import report_of
from program import BUILD
from worker_under_test import ROOT

SCRIPT = ROOT / "scripts/lab/record-noise"


def record(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def recordings(file: Path) -> list[dict[str, Any]]:
    noise = json.loads(file.read_text())
    assert noise["schema"] == "assay-noise/2"
    return noise["recordings"]


def made(rounds: int, start: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    """Make a report of two cells; a step of fork f takes 1000 + f and 2000 + f microseconds."""
    report = report_of(
        [[[(cell + 1) * 1_000_000 + 1000 * f] * 4 for f in range(rounds)] for cell in range(2)]
    )
    report["run"]["start"] = start
    return report


def write(folder: Path, name: str, report: dict[str, Any]) -> Path:
    file = folder / name
    file.write_text(json.dumps(report))
    return file


def test_keeps_whole_rounds_with_their_flags(tmp_path: Path) -> None:
    first, second = made(14), made(20, "2026-01-02T00:00:00Z")
    first["run"]["command_line"] = ["assay", "run", "--out", "/home/me/a.json", "--forks", "6"]
    first["cells"][0]["forks"][3]["status"] = "crashed"
    first["cells"][1]["forks"][5]["flags"] = ["disturbed"]
    reading = {"slowdown": 1.00049, "hop_ns": 50.12345}
    first["cells"][0]["forks"][0]["placement"] = {"before": reading, "after": reading}
    files = [write(tmp_path, "a.json", first), write(tmp_path, "b.json", second)]
    out = tmp_path / "noise.json"
    said = record("quiet", out, *files).stdout
    assert said == "quiet: 2 cells, 2 sessions, 33 rounds\n"
    (recording,) = recordings(out)
    assert (recording["kind"], recording["flags"]) == ("quiet", True)
    assert recording["command"] == "assay run --forks 6"
    assert [session["start"] for session in recording["sessions"]] == [
        "2026-01-01T00:00:00Z",
        "2026-01-02T00:00:00Z",
    ]
    cells = recording["sessions"][0]["cells"]
    for cell in cells:
        assert [fork["round"] for fork in cell["forks"]] == [0, 1, 2, *range(4, 14)], "a crash makes no round"
    assert cells[1]["forks"][4] == {"round": 5, "flags": ["disturbed"], "blocks": [2_005_000] * 4}
    assert "flags" not in cells[0]["forks"][4]
    assert cells[0]["forks"][0]["placement"]["after"] == {"slowdown": 1.0, "hop_ns": 50.123}
    assert "placement" not in cells[0]["forks"][1]


def test_a_cell_that_failed_takes_no_rounds_from_the_others(tmp_path: Path) -> None:
    reports = [made(6), made(6, "2026-01-02T00:00:00Z")]
    failed = reports[1]["cells"][1]
    failed["status"], failed["forks"] = "failed", failed["forks"][:2]
    out = tmp_path / "noise.json"
    files = [write(tmp_path, f"{i}.json", report) for i, report in enumerate(reports)]
    done = record("quiet", out, *files)
    assert done.stdout == "quiet: 1 cell, 2 sessions, 12 rounds\n"
    assert done.stderr.count("left out") == 1


def test_replaces_a_recording_of_its_name(tmp_path: Path) -> None:
    file, out = write(tmp_path, "a.json", made(6)), tmp_path / "noise.json"
    record("quiet", out, file)
    record("quiet", out, file, "--name", "another")
    record("shared", out, file, "--name", "quiet")
    assert [(one["name"], one["kind"]) for one in recordings(out)] == [
        ("another", "quiet"),
        ("quiet", "shared"),
    ]


def test_refuses_reports_that_are_no_sessions_of_one_experiment(tmp_path: Path) -> None:
    report, other, without = made(6), made(6), made(6)
    other["run"]["commit"] = "another"
    for cell in without["cells"]:
        cell["forks"] = []
    a = write(tmp_path, "a.json", report)
    out = tmp_path / "noise.json"
    refused = record("quiet", out, a, write(tmp_path, "b.json", other), code=1)
    assert "several builds or machines" in refused.stderr
    refused = record("quiet", out, a, write(tmp_path, "c.json", without), code=1)
    assert "no cell has a fork in every session" in refused.stderr
    assert not out.exists()


@pytest.mark.skipif(not (BUILD / "simulate_gate").exists(), reason="simulate_gate is not built")
def test_the_simulation_replays_what_was_recorded(tmp_path: Path) -> None:
    out = tmp_path / "noise.json"
    files = [write(tmp_path, f"{s}.json", made(20)) for s in range(3)]
    record("shared", out, *files)
    done = subprocess.run(
        [str(BUILD / "simulate_gate"), str(out), "3"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line for line in done.stdout.splitlines() if line.startswith("| shared |")]
    columns = [[text.strip() for text in row.strip("|").split("|")] for row in rows]
    # Three sessions of three runs each: eight with one baseline, four with five; of each cell, or of both.
    assert [row[2:6] for row in columns[:4]] == [
        ["9", "1", "1", "16"],
        ["9", "2", "1", "8"],
        ["9", "1", "5", "8"],
        ["9", "2", "5", "4"],
    ]
