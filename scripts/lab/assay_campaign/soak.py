"""One long run: the program's resources do not grow from the 100th fork to the last.

Its memory holds the report, which grows with each fork. A new process that resumes the finished report
holds the same forks without the history of the run. The difference between the growth of the two is a leak.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay_campaign.bench import Bench, CampaignError, Case, Place, read_report, real_run, wait_for

SETTLED = 100  # forks, after which nothing may grow
ENOUGH = 50  # samples, among which are the least and the most
BACKEND = "reference"
LEAK = 2 << 10  # maximum bytes of memory for one more fork, in addition to the report's
SLACK = 8 << 20
COUNT = re.compile(rb"^\[(\d+)/\d+\]", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """The resources of the program after that many forks."""

    forks: int
    memory: int
    descriptors: int
    processes: int
    folders: int


def memory_of(process: int, field: str) -> int | None:
    """Return VmRSS or VmHWM of a process in bytes; None: it has ended."""
    found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def sample(place: Place, process: int, log: Path) -> Sample | None:
    """Look at the program between two of its forks or within one; None: it has ended."""
    try:
        memory = memory_of(process, "VmRSS")
        descriptors = len([*Path(f"/proc/{process}/fd").iterdir()])
        tasks = [*Path(f"/proc/{process}/task").glob("*/children")]
        processes = sum(len(task.read_text().split()) for task in tasks)
    except OSError:
        return None
    if memory is None:
        return None
    done = COUNT.findall(log.read_bytes())
    folders = sum(1 for _ in place.tmp.glob("*/*"))
    return Sample(int(done[-1]) if done else 0, memory, descriptors, processes, folders)


def watch(
    place: Place, process: subprocess.Popen[bytes], log: Path, bench: Bench, early: tuple[Path, Path, int]
) -> list[Sample]:
    """Sample the program until it ends; copy its report when it has that many forks."""
    report, copy, settled = early
    samples: list[Sample] = []
    while process.poll() is None:
        if seen := sample(place, process.pid, log):
            samples.append(seen)
            bench.units = seen.forks
            bench.show_progress()
            if seen.forks >= settled and not copy.exists():
                shutil.copy(report, copy)
        if bench.out_of_time():
            process.terminate()
            break
        time.sleep(0.05)
    return samples


def ends(samples: list[Sample], what: str) -> tuple[int, int]:
    """Return the least and the most of it."""
    values = [int(getattr(one, what)) for one in samples]
    return min(values), max(values)


@dataclass(frozen=True)
class Held:
    """The memory of a new process that resumes a report and has nothing to run."""

    forks: int
    memory: int
    report_bytes: int


def hold_report(place: Place, report: Path) -> Held:
    forks = len(forks_of(report))
    again, log = place.out / "again.json", place.folder / "again.log"
    shutil.copy(report, again)
    peak = 0
    with log.open("wb") as file:
        process = place.start(place.command(*run_of(forks), "--out", again, "--resume", again), stderr=file)
        while process.poll() is None:  # what wait4() says includes its workers
            with contextlib.suppress(OSError):
                peak = max(peak, memory_of(process.pid, "VmHWM") or 0)
            time.sleep(0.001)
    if process.returncode != 0 or len(forks_of(again)) != forks:
        raise CampaignError(f"a report of {forks} forks cannot be resumed: {log.read_text()[-400:]}")
    return Held(forks, peak, report.stat().st_size)


def compare(case: Case, samples: list[Sample], settled: int, held: tuple[Held, Held]) -> list[str]:
    """Compare the last quarter with the first forks after the settled one."""
    last = samples[-1].forks
    after = [one for one in samples if one.forks >= settled]
    width = max(1, (last - settled) // 4)
    early = [one for one in after if one.forks <= settled + width]
    late = [one for one in after if one.forks >= last - width]
    if not early or not late:
        case.expect(False, f"{len(samples)} samples are too few")
        return []
    notes = []
    for what in ("descriptors", "processes", "folders"):
        first, then = ends(early, what), ends(late, what)
        notes.append(
            f"{what}: {first[0]} to {first[1]} after the {settled}th fork, {then[0]} to {then[1]} at the end"
        )
        # Samples may miss the least or the most, but what leaks raises both. A few samples may miss both,
        # and show only a leak that is larger than what a fork uses.
        few = min(len(early), len(late)) < ENOUGH
        grows = then[0] > first[1] if few else then[0] > first[0] and then[1] > first[1]
        case.expect(not grows, f"{what} grow: {first} after {settled} forks, {then} after {last}")
    return notes + compare_memory(case, early, late, held)


def compare_memory(case: Case, early: list[Sample], late: list[Sample], held: tuple[Held, Held]) -> list[str]:
    """Compare the growth of the run with that of new processes that hold its reports."""
    few, many = held
    forks = max(1, many.forks - few.forks)
    first, then = ends(early[: len(early) // 4 + 1], "memory")[1], ends(late, "memory")[1]
    grown, explained = then - first, many.memory - few.memory
    leak = grown - explained
    notes = [
        f"memory: {kilobytes(first)} after fork {few.forks}, {kilobytes(then)} after fork {many.forks}: "
        f"{grown / 1024 / forks:.1f} kB a fork",
        f"a new process that holds the report of that many forks: {kilobytes(few.memory)}, "
        f"{kilobytes(many.memory)}: {explained / 1024 / forks:.1f} kB a fork; "
        f"the report on disk has {many.report_bytes / 1024 / many.forks:.1f} kB a fork",
        f"memory that the report does not explain: {leak / 1024 / forks:.1f} kB a fork",
    ]
    case.expect(
        leak <= forks * LEAK + SLACK, f"memory grows by {leak >> 10} kB that the report does not hold"
    )
    return notes


def kilobytes(count: int) -> str:
    return f"{count >> 10:,} kB"


def forks_of(report: Path) -> list[Any]:
    return [fork for cell in read_report(report)["cells"] for fork in cell["forks"]]


def run_of(forks: int) -> list[object]:
    return real_run(BACKEND, "--check=false", forks=forks)


def hold(bench: Bench) -> None:
    place = bench.place("soak")
    report, log, copy = place.out / "report.json", place.folder / "log", place.out / "early.json"
    settled = min(SETTLED, bench.count // 4)
    case = next(iter(bench.each_case()))
    with log.open("wb") as file:
        process = place.start(place.command(*run_of(bench.count), "--out", report), stderr=file)
    samples = watch(place, process, log, bench, (report, copy, settled))
    code, _ = wait_for(process, 120)
    case.expect(code == 0 or bench.out_of_time(), f"exit code {code}: {log.read_text()[-400:]}")
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    forks = forks_of(report)
    bench.units = len(forks)
    case.expect(all(fork["status"] == "ok" for fork in forks), "a fork is not ok")
    if code == 0:
        case.expect(len(forks) == bench.count, f"{len(forks)} of {bench.count} forks are in the report")
    if copy.exists():
        bench.notes += compare(case, samples, settled, (hold_report(place, copy), hold_report(place, report)))
    else:
        case.expect(False, f"there are no {settled} forks")
    bench.counts["samples"] = len(samples)
    again = f"scripts/lab/campaign soak --count {bench.count} --assay {bench.program}"
    bench.violations += [f"{text}\n    again: {again}" for text in case.wrong]
