"""What the scripts say about time: scripts/stage_times.py and scripts/lab/build-costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from worker_under_test import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from stage_times import Case, cases_of, over_budget


def test_reads_the_cases_of_googletest_and_pytest(tmp_path: Path) -> None:
    google = tmp_path / "core_test.xml"
    google.write_text(
        """<testsuites><testsuite name="Clock">
        <testcase name="Runs" classname="Clock" status="run" time="1.5"/>
        <testcase name="Stops" classname="Clock" status="run" time="0"><failure message="1"/></testcase>
        <testcase name="Waits" classname="Clock" status="run" time="0"><skipped message="no GPU"/></testcase>
        </testsuite></testsuites>"""
    )
    assert cases_of(google) == [
        Case("core_test Clock.Runs", 1.5, "passed"),
        Case("core_test Clock.Stops", 0, "failed"),
        Case("core_test Clock.Waits", 0, "skipped"),
    ]


def test_warns_of_a_stage_that_exceeds_its_budget_by_half() -> None:
    budget = {"pytest": 100.0, "ruff": 2.0}
    assert over_budget({"pytest": 149, "ruff": 2, "unknown": 9}, budget) == []
    assert over_budget({"pytest": 151}, budget) == [
        "warning: pytest took 151 s, its budget is 100 s on two cores"
    ]


def test_build_costs_lists_the_most_expensive_units_first(tmp_path: Path) -> None:
    (tmp_path / ".ninja_log").write_text(
        "# ninja log v5\n"
        "0\t900\t1\tharness/core/CMakeFiles/assay_core.dir/clock.cpp.o\tab\n"
        "0\t5000\t1\tharness/core/CMakeFiles/assay_core.dir/text.cpp.o\tab\n"
        "0\t2000\t2\tharness/core/CMakeFiles/assay_core.dir/text.cpp.o\tab\n"
    )
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/lab/build-costs"), str(tmp_path), "--units", "1"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "2.9"
    assert lines[1].endswith("text.cpp.o")
    assert lines[1].split()[0] == "2.0", "the last run of a unit counts"
    assert lines[-1].split() == ["2.9", "s", "harness/core"]
