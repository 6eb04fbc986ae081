"""scripts/lab/campaign: what a campaign finds in programs that break a promise."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from assay_campaign import soak
from assay_campaign.bench import Bench, Case
from assay_campaign.workers import variants_of
from campaigns import campaign
from kept_reports import GOLDEN
from program import PROGRAM


def fake(folder: Path, script: str) -> Path:
    """Make a program of a few lines of shell, in which $out is the report that `run` has to write."""
    (folder / "tests/faults/backends/fault").mkdir(parents=True)
    (folder / "tests/faults/backends/fault/backend.json").write_text("{}")
    (folder / "tests/faults/fault_worker").touch()
    program = folder / "assay"
    head = "#!/bin/sh\nwhile [ $# -gt 0 ]; do case $1 in --out) out=$2 ;; esac\n"
    head += "command=${command:-$1}; shift; done\n"
    program.write_text(head + script)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def violations(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done.stdout + done.stderr
    assert "again: scripts/lab/campaign" in done.stdout
    return done.stdout


WRITES = f'[ "$command" != run ] || cp {GOLDEN} "$out"\n'


def test_a_control_character_is_a_violation(tmp_path: Path) -> None:
    program = fake(tmp_path, WRITES + 'printf "\\033[31m\\n::error::owned\\n"\n')
    said = violations(campaign("reports", "--count", 1, "--seed", 1, program=program))
    assert "prints the control character '\\x1b'" in said
    assert "a line that a CI server obeys" in said


def test_an_undocumented_exit_code_is_a_violation(tmp_path: Path) -> None:
    program = fake(tmp_path, WRITES + '[ "$command" = run ] || exit 7\n')
    assert "exit code 7" in violations(campaign("reports", "--count", 1, "--seed", 1, program=program))


def test_survivors_and_leftovers_are_violations(tmp_path: Path) -> None:
    program = fake(
        tmp_path, WRITES + '[ "$command" != run ] || { sleep 600 & mkdir -p "$TMPDIR/assay-abcdef"; }\n'
    )
    said = violations(campaign("places", "--count", 1, "--seed", 0, program=program, patience=0.5))
    assert "(sleep 600)" in said
    assert "folder assay-abcdef" in said


def test_an_invalid_report_and_a_lost_fork_are_violations(tmp_path: Path) -> None:
    empty = '{"schema": "assay-report/2", "cells": []}'
    script = f"""case $command in
  run)
    cp {GOLDEN} "$out"; sleep 0.1; echo '[1/1] a: ok' >&2; echo '[2/2] b: ok' >&2
    echo '{empty}' > "$out"; sleep 0.3 ;;
  validate) echo broken >&2; exit 2 ;;
esac
"""
    said = violations(campaign("kill", "--count", 6, "--seed", 1, program=fake(tmp_path, script)))
    assert "the report is invalid" in said
    assert "forks finished" in said
    assert "forks are in the completed report" in said


def test_more_than_a_gigabyte_is_a_violation(tmp_path: Path) -> None:
    program = fake(tmp_path, f'exec {sys.executable} -c "x = bytes([1]) * (1200 << 20); exit(2)" >&2\n')
    assert "MB" in violations(campaign("data", "--count", 1, "--seed", 3, program=program))


def test_without_the_fault_worker_there_is_no_campaign(tmp_path: Path) -> None:
    program = fake(tmp_path, "exit 0\n")
    shutil.rmtree(tmp_path / "tests")
    done = campaign("kill", program=program)
    assert done.returncode == 2
    assert "fault_worker" in done.stderr


def samples(growing: str, by: int) -> list[soak.Sample]:
    steady = {"memory": 50 << 20, "descriptors": 20, "processes": 1, "folders": 8}
    return [
        soak.Sample(forks=forks, **(steady | {growing: steady[growing] + by * forks // 100}))
        for forks in range(1000)
    ]


def compared(growing: str, by: int, held_growth: int = 0) -> list[str]:
    case = Case(0, random.Random(0))
    held = soak.Held(100, 50 << 20, 1 << 20), soak.Held(999, (50 << 20) + held_growth, 9 << 20)
    soak.compare(case, samples(growing, by), 100, held)
    return case.wrong


@pytest.mark.parametrize("what", ["memory", "descriptors", "processes", "folders"])
def test_growth_is_a_violation_of_the_soak(what: str) -> None:
    assert compared(what, 0) == []
    assert len(compared(what, 20 << 20 if what == "memory" else 1)) == 1


def test_a_few_samples_may_miss_what_a_fork_uses_least() -> None:
    def compared_after(*descriptors: int) -> list[str]:
        case = Case(0, random.Random(0))
        seen = [
            soak.Sample(forks=10 + 5 * i, memory=50 << 20, descriptors=count, processes=1, folders=3)
            for i, count in enumerate(descriptors)
        ]
        soak.compare(case, seen, 10, (soak.Held(10, 50 << 20, 1 << 20), soak.Held(39, 50 << 20, 1 << 20)))
        return case.wrong

    assert compared_after(8, 18, 8, 13, 13, 19) == [], "between forks there are 8"
    assert len(compared_after(8, 18, 23, 28, 33, 38)) == 1, "one more in each fork"


def test_memory_of_the_report_is_no_violation_of_the_soak() -> None:
    assert compared("memory", 20 << 20, held_growth=180 << 20) == []
    assert len(compared("memory", 20 << 20, held_growth=100 << 20)) == 1


def test_a_case_has_the_random_numbers_of_its_seed(tmp_path: Path) -> None:
    def drawn(seed: int, count: int) -> list[float]:
        bench = Bench("x", PROGRAM, tmp_path, tmp_path, seed, count, 0)
        return [case.random.random() for case in bench.each_case()]

    assert drawn(7, 5)[3] == drawn(10, 1)[0]
    assert len(set(drawn(7, 5))) == 5


WORKER = PROGRAM.parent / "tests/faults/fault_worker"


@pytest.mark.skipif(not WORKER.exists(), reason="fault_worker is not built")
def test_every_mode_of_the_fault_worker_that_goes_wrong_is_a_variant() -> None:
    modes = json.loads((WORKER.parent / "backends/fault/backend.json").read_text())["modes"]
    variants = variants_of(PROGRAM)
    assert len(modes) == len(set(modes))
    behaves = {"good", "other", "heavier", "sleeps", "no_gpu"}
    behaves |= {"busy", "claims_others", "compiles_longer", "zeros", "rewrites_a_plan", "rewrites_operands"}
    behaves |= {"exchanges_too_long", "exchanges_in_no_time"}  # if it is asked for an exchange, unlike here
    behaves |= {"exchanges_in_other_rounds", "exchanges_without_a_word"}
    behaves |= {"device_too_long", "device_in_no_time"}  # the same of a single op's device
    behaves |= {"device_without_a_word", "device_with_a_reason"}
    behaves |= {"meets", "wants_room"}
    behaves |= {"hangs_in_round_2", "starves"}  # in a run with --max-time
    behaves |= {"compiles_nothing", "interprets", "huddles"}  # what they do shows without a campaign
    if len(os.sched_getaffinity(0)) == 1:
        behaves |= {"wanders", "works_in_an_orphan"}  # one processor leaves nowhere to go
    assert {variant.mode for variant in variants} == set(modes) - behaves
    assert all(variant.words or variant.status == "ok" for variant in variants if variant.checked)


def test_a_worker_whose_row_is_ok_is_a_violation(tmp_path: Path) -> None:
    rows = [{"status": "ok", "reason": "", "forks": [{}, {}]}] * 2
    (tmp_path / "written.json").write_text(json.dumps({"cells": rows}))
    program = fake(tmp_path, f'[ "$command" != run ] || cp {tmp_path}/written.json "$out"\n')
    worker = tmp_path / "tests/faults/fault_worker"
    table = [{"mode": "crash", "status": "crashed", "words": "SIGSEGV", "options": []}]
    worker.write_text(f"#!/bin/sh\necho '{json.dumps(table)}'\n")
    worker.chmod(0o700)
    said = violations(campaign("workers", "--count", 1, program=program))
    assert "crash: wanted crashed, got ok" in said
    assert "crash: exit code 0" in said
    assert "the next cell" not in said
