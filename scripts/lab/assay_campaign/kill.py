"""SIGKILL at random moments of new runs and of runs that resume one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from assay_campaign.bench import Bench, Case, Place, fault_run, read_report, real_run, remove, wait_for

Forks = dict[tuple[str, int], dict[str, Any]]
FINISHED = re.compile(rb"^\[\d+/\d+\] .*: ok", re.MULTILINE)
RUNS = {
    "slow forks": (fault_run("slow,good"), 6),
    "forks that leave processes behind": (fault_run("leaves_behind,slow", "--fork-style", "resident"), 6),
    "checked forks": (real_run("reference"), 3),
}
WEIGHTS = (3, 3, 2)


def forks_of(report: Path) -> Forks:
    """Return the forks of a report by cell and round. Flags may change with the forks of other cells."""
    if not report.exists():
        return {}
    return {
        (cell["id"], fork["round"]): {key: value for key, value in fork.items() if key != "flags"}
        for cell in read_report(report)["cells"]
        for fork in cell["forks"]
    }


def start(place: Place, arguments: list[object], log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as file:
        return place.start(place.command(*arguments), stderr=file)


def lose(case: Case, before: Forks, after: Forks, when: str) -> None:
    for key, fork in before.items():
        if key not in after:
            case.expect(False, f"{when}: fork {key} is lost")
        elif after[key] != fork:
            case.expect(False, f"{when}: fork {key} has changed")


def kill_once(place: Place, case: Case, arguments: list[object], report: Path, longest: float) -> bool:
    """Start the program and kill it after a random time; return whether it was still running."""
    before = forks_of(report)
    log = place.folder / "log"
    process = start(place, arguments, log)
    # Half of the kills hit the start, where a run reads, locks and writes most.
    time.sleep(case.random.uniform(0, longest if case.random.random() < 0.5 else longest / 5))
    finished = process.poll() is not None
    if not finished:
        os.kill(process.pid, signal.SIGKILL)
    wait_for(process, 60)
    when = "after a kill" if not finished else "after a run"
    for survivor in place.survivors():
        case.expect(False, f"{when}: {survivor} is still alive")
    if report.exists():
        why = place.why_invalid(report)
        case.expect(not why, f"{when}: the report is invalid: {why}")
    after = forks_of(report)
    lose(case, before, after, when)
    # A fork's line is printed before the fork is written, so one may be missing.
    said = len(FINISHED.findall(log.read_bytes()))
    case.expect(
        len(after) >= len(before) + said - 1, f"{when}: {said} forks finished, {len(after)} are in the report"
    )
    case.counts["kills" if not finished else "ended before the kill"] += 1
    case.counts["no report yet"] += not report.exists()
    return not finished


def chain(bench: Bench, case: Case, longest: dict[str, float]) -> None:
    """Kill a new run, then up to three runs that resume it, then let one complete it."""
    case.kind = case.random.choices([*RUNS], WEIGHTS)[0]
    base, forks = RUNS[case.kind]
    place = bench.place("kill")
    report = place.out / "report.json"
    for old in [*place.out.iterdir(), *place.tmp.iterdir()]:
        remove(old)
    if case.random.random() < 0.25:  # make the data set and the oracle's answers again
        remove(place.folder / "cache")
    again = [*base, "--out", report]
    for _ in range(1 + case.random.randrange(4)):
        resume = ["--resume", report] if report.exists() else []
        bench.units += kill_once(place, case, [*again, *resume], report, longest[case.kind])
        case.counts["of them of --resume"] += bool(resume)
    before = forks_of(report)
    done = place.assay(*again, *(["--resume", report] if report.exists() else []))
    case.counts["runs completed"] += 1
    case.expect(done.code == 0, f"the last run did not complete the report: {done.told}")
    after = forks_of(report)
    lose(case, before, after, "after the last run")
    # A cell of a round that was cut off runs again, together with the others.
    case.expect(len(after) >= forks, f"{len(after)} of {forks} forks are in the completed report")
    case.expect(
        not place.why_invalid(report), f"the completed report is invalid: {place.why_invalid(report)}"
    )
    left = place.survivors() + place.leftovers() + [p.name for p in place.out.iterdir() if p != report]
    case.expect(not left, f"left after the last run: {', '.join(left)}")


def hold(bench: Bench) -> None:
    place = bench.place("kill")
    longest: dict[str, float] = {}
    for name, (arguments, _) in RUNS.items():
        done = place.assay(*arguments, "--out", place.out / "report.json")
        if done.code != 0:
            bench.violations.append(f"{name}: a run that is not killed fails: {done.told}")
            return
        longest[name] = done.seconds
    for case in bench.each_case():
        try:
            chain(bench, case, longest)
        except TimeoutError as error:
            case.expect(False, str(error))
