"""Shared by the campaigns: the program in its own place, its leftovers, and the counts of cases."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
MARK = "ASSAY_CAMPAIGN"  # in the environment of everything that a campaign starts
PATIENCE = 20.0  # seconds that a killed process may take to end
# C0 without tab and line feed, DEL, and C1.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CampaignError(Exception):
    """The campaign cannot run: names what is missing, and how to get it."""


@dataclass(frozen=True)
class Done:
    """A process that ended."""

    code: int  # negative: the signal
    out: str
    err: str
    seconds: float
    cpu_seconds: float
    max_rss: int  # bytes, the larger of it and its largest child

    @property
    def told(self) -> str:
        return f"exit code {self.code}: {self.err.strip()[-400:]}"


@dataclass
class Place:
    """A folder with a temporary folder, a cache and a home for the program."""

    folder: Path
    program: Path
    backends: Path

    def __post_init__(self) -> None:
        for path in (self.tmp, self.home, self.out):
            path.mkdir(parents=True, exist_ok=True)

    @property
    def tmp(self) -> Path:
        return self.folder / "tmp"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def environment(self, **changes: str | None) -> dict[str, str]:
        """Return the program's environment; a change to None removes the variable."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LD_LIBRARY_PATH") if name in os.environ}
        made: dict[str, str | None] = {
            **kept,
            "HOME": str(self.home),
            "TMPDIR": str(self.tmp),
            "ASSAY_CACHE": str(self.folder / "cache"),
            "ASSAY_BACKENDS": str(self.backends),
            MARK: str(self.folder),
            **changes,
        }
        return {name: value for name, value in made.items() if value is not None}

    def command(self, *arguments: object) -> list[str]:
        return [str(self.program), *map(str, arguments)]

    def start(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        """Start a process in its own session."""
        options.setdefault("env", self.environment())
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.DEVNULL)
        options.setdefault("stderr", subprocess.DEVNULL)
        return subprocess.Popen(command, start_new_session=True, **options)

    def run(self, command: Sequence[str], limit: float = 600, **options: Any) -> Done:
        """Run it to its end; after `limit` it is killed, and TimeoutError is raised."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            options.setdefault("stdout", out)
            options.setdefault("stderr", err)
            begin = time.monotonic()
            process = self.start(command, **options)
            status, usage = wait_for(process, limit)
            seconds = time.monotonic() - begin
            out.seek(0)
            err.seek(0)
            texts = [file.read().decode("utf-8", "backslashreplace") for file in (out, err)]
        if status is None:
            raise TimeoutError(f"no end after {limit:g} s: {shlex.join(command)}: {texts[1][-400:]}")
        cpu = usage.ru_utime + usage.ru_stime
        return Done(status, texts[0], texts[1], seconds, cpu, usage.ru_maxrss * 1024)

    def assay(self, *arguments: object, limit: float = 600, **options: Any) -> Done:
        return self.run(self.command(*arguments), limit, **options)

    def why_invalid(self, report: Path) -> str:
        """Return the first fault that `assay validate` finds; empty: the report is valid."""
        done = self.assay("validate", report)
        return "" if done.code == 0 else done.told

    def processes(self) -> list[int]:
        """Return the processes that were started from here and are alive."""
        mark = f"{MARK}={self.folder}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # it ended, or belongs to another user
                continue
        return found

    def survivors(self) -> list[str]:
        """Wait until the processes started from here have ended; kill and name the others."""
        until = time.monotonic() + PATIENCE
        while self.processes():
            if time.monotonic() > until:
                return [f"process {kill(process)}" for process in self.processes()]
            time.sleep(0.02)
        return []

    def leftovers(self) -> list[str]:
        """Return the files left in the temporary folder, and remove them."""
        left = sorted(path.name for path in self.tmp.iterdir())
        for name in left:
            remove(self.tmp / name)
        return [f"folder {name}" for name in left]


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def kill(process: int) -> str:
    """Kill a process that should have ended; return its number and its command."""
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        os.kill(process, signal.SIGKILL)
    except OSError:
        return f"{process} (ended just now)"
    return f"{process} ({command.strip()})"


def wait_for(process: subprocess.Popen[bytes], limit: float) -> tuple[int | None, Any]:
    """Wait for it; return its exit status (None: killed at the limit), and its usage if it was not polled."""
    if process.returncode is not None:
        return process.returncode, None
    until = time.monotonic() + limit
    pause = 0.001
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage
        if time.monotonic() > until:
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            return None, usage
        time.sleep(pause)
        pause = min(0.02, pause * 2)


@dataclass
class Case:
    """One case of a campaign: its number, its own random numbers, and its violations."""

    number: int  # the seed that repeats this case
    random: random.Random
    kind: str = "case"
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def expect(self, holds: bool, text: str) -> None:
        if not holds:
            self.wrong.append(text)


@dataclass
class Bench:
    """The place of a campaign and its counts."""

    name: str
    program: Path
    backends: Path
    folder: Path
    seed: int
    count: int
    seconds: float
    violations: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    cases: int = 0
    units: int = 0  # counted by --count: cases, unless a campaign counts something else
    shown: int = 0  # tenths of the count for which a line was printed
    begun: float = field(default_factory=time.monotonic)

    def place(self, name: str) -> Place:
        return Place(self.folder / name, self.program, self.backends)

    def each_case(self) -> Iterator[Case]:
        """Yield cases until there are enough or the time is over; each is counted before the next."""
        while self.units < self.count and not self.out_of_time():
            number = self.seed + self.cases
            case = Case(number, random.Random(number))
            self.cases += 1
            units = self.units
            yield case
            self.units = max(self.units, units + 1)
            self.counts[case.kind] += 1
            self.counts.update(case.counts)
            for text in case.wrong:
                again = f"scripts/lab/campaign {self.name} --seed {number} --count 1 --assay {self.program}"
                self.violations.append(f"{case.kind}: {text}\n    again: {again}")
            self.show_progress()

    def out_of_time(self) -> bool:
        return self.seconds > 0 and time.monotonic() - self.begun > self.seconds

    def show_progress(self) -> None:
        line = f"{self.name}: {self.units} of {self.count}, {len(self.violations)} violations"
        if sys.stderr.isatty():
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif (tenth := 10 * self.units // self.count) > self.shown:
            self.shown = tenth
            print(line, file=sys.stderr, flush=True)

    def summary(self) -> str:
        lines = [f"{self.name}: {self.units} of {self.count} in {time.monotonic() - self.begun:.0f} s"]
        lines += [f"  {count:7} {what}" for what, count in sorted(self.counts.items()) if count]
        lines += [f"  note: {note}" for note in self.notes]
        lines += [f"  VIOLATION {text}" for text in self.violations]
        lines.append(f"  {len(self.violations)} violations")
        return "\n".join(lines)


def backends_of(program: Path) -> Path:
    """Return the folder with the backend `fault`, which a build of the tests makes."""
    folder = program.parent / "tests/faults/backends"
    if (
        not (folder / "fault/backend.json").exists()
        or not (program.parent / "tests/faults/fault_worker").exists()
    ):
        raise CampaignError(
            f"{folder} has no backend `fault`; build it: ninja -C {program.parent} fault_worker"
        )
    return folder


def _short_run(backend: str, forks: int, *more: object) -> list[object]:
    return [
        *("run", "--workload", "mlp", "--dataset", "synthetic", "--samples", 100, "--backend", backend),
        *("--threads", 1, "--forks", forks, "--spare-rounds", 0, *more),
    ]


def fault_run(mode: str, *more: object, forks: int = 3) -> list[object]:
    """Return the arguments of a short run of the fault worker, which declares its times."""
    return _short_run("fault", forks, "--mode", mode, "--blocks", 3, "--check=false", *more)


def real_run(backend: str, *more: object, forks: int = 3) -> list[object]:
    """Return the arguments of a short run that computes, checked against the oracle."""
    steps = ("--steps", 4, "--warm-up-steps", 1, "--warm-up-seconds", 0)
    return _short_run(backend, forks, "--batch", 8, "--distinct", 1, *steps, *more)


def read_report(file: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(file.read_text())
    return report


def run_all(bench: Bench, cases: Sequence[Callable[[Bench, Case], None]]) -> None:
    """Take the cases of a table in turn; the number of a case selects its row."""
    for case in bench.each_case():
        made = cases[case.number % len(cases)]
        case.kind = made.__name__.replace("_", " ")
        try:
            made(bench, case)
        except TimeoutError as error:
            case.expect(False, str(error))
