"""One long run: the program's resources do not grow from the 100th fork to the last."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from assay_campaign.bench import Bench, Case, Place, read_report, real_run, wait_for

SETTLED = 100  # forks, after which nothing may grow
BACKEND = "reference"
PER_FORK = 16 << 10  # maximum bytes of memory for the report of one more fork
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


def sample(place: Place, process: int, log: Path) -> Sample | None:
    """Look at the program between two of its forks or within one; None: it has ended."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
        memory = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
        descriptors = len([*Path(f"/proc/{process}/fd").iterdir()])
        tasks = [*Path(f"/proc/{process}/task").glob("*/children")]
        processes = sum(len(task.read_text().split()) for task in tasks)
    except OSError:
        return None
    if not memory:
        return None
    done = COUNT.findall(log.read_bytes())
    folders = sum(1 for _ in place.tmp.glob("*/*"))
    return Sample(int(done[-1]) if done else 0, int(memory[1]) << 10, descriptors, processes, folders)


def watch(place: Place, process: subprocess.Popen[bytes], log: Path, bench: Bench) -> list[Sample]:
    samples: list[Sample] = []
    while process.poll() is None:
        if seen := sample(place, process.pid, log):
            samples.append(seen)
            bench.units = seen.forks
            bench.show_progress()
        if bench.out_of_time():
            process.terminate()
            break
        time.sleep(0.05)
    return samples


def most(samples: list[Sample], what: str) -> int:
    return max(int(getattr(one, what)) for one in samples)


def judge(case: Case, samples: list[Sample], settled: int, report_bytes: int) -> list[str]:
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
        first, then = most(early, what), most(late, what)
        notes.append(f"{what}: at most {first} after the {settled}th fork, {then} at the end")
        case.expect(then <= first, f"{what} grow: {first} after {settled} forks, {then} after {last}")
    first, then = most(early, "memory"), most(late, "memory")
    allowed = (last - settled) * PER_FORK + SLACK
    per_fork = (then - first) / max(1, last - settled)
    notes.append(
        f"memory: {first >> 20} MB after the {settled}th fork, {then >> 20} MB at the end, "
        f"{per_fork / 1024:.1f} kB a fork; the report has {report_bytes / 1024 / last:.1f} kB a fork"
    )
    case.expect(then - first <= allowed, f"memory grows by {per_fork / 1024:.1f} kB a fork")
    return notes


def hold(bench: Bench) -> None:
    place = bench.place("soak")
    report, log = place.out / "report.json", place.folder / "log"
    case = next(iter(bench.each_case()))
    command = place.command(*real_run(BACKEND, "--check=false", forks=bench.count), "--out", report)
    with log.open("wb") as file:
        process = place.start(command, stderr=file)
    samples = watch(place, process, log, bench)
    code, _ = wait_for(process, 120)
    case.expect(code == 0 or bench.out_of_time(), f"exit code {code}: {log.read_text()[-400:]}")
    left = place.survivors() + place.leftovers()
    case.expect(not left, f"left: {', '.join(left)}")
    case.expect(not place.why_invalid(report), f"the report is invalid: {place.why_invalid(report)}")
    forks = [fork for cell in read_report(report)["cells"] for fork in cell["forks"]]
    bench.units = len(forks)
    case.expect(all(fork["status"] == "ok" for fork in forks), "a fork is not ok")
    if code == 0:
        case.expect(len(forks) == bench.count, f"{len(forks)} of {bench.count} forks are in the report")
    bench.notes += judge(case, samples, min(SETTLED, bench.count // 4), report.stat().st_size)
    bench.counts["samples"] = len(samples)
    again = f"scripts/campaign soak --count {bench.count} --assay {bench.program}"
    bench.violations += [f"{text}\n    again: {again}" for text in case.wrong]
