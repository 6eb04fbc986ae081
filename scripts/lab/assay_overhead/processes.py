"""A program that runs, waits and ends on command, with all the processes that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

TICKS = os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat after the name, counted from 0.
PARENT, USER, SYSTEM = 1, 11, 12


def stat_of(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; empty if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def descendants(root: int) -> list[int]:
    """Return the process and all that it started, parents before children."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat_of(int(entry.name))):
            children.setdefault(int(fields[PARENT]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


class Running:
    """One side of a pair, as processes. Its output goes to files; end() must be called."""

    def __init__(
        self, command: Sequence[object], environment: Mapping[str, str], out: IO[bytes], err: IO[bytes]
    ) -> None:
        words = [str(word) for word in command]
        self._process = subprocess.Popen(
            words, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out, stderr=err
        )

    def ended(self) -> bool:
        return self._process.poll() is not None

    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_until_ended(self, seconds: float) -> bool:
        """Wait for the end, at most that long; return whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.ended()

    def stop(self) -> None:
        """Let no process of it run. The parent is stopped first: it must not see its children stopped."""
        for pid in descendants(self._process.pid):
            self._signal(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        for pid in reversed(descendants(self._process.pid)):
            self._signal(pid, signal.SIGCONT)

    def finish(self) -> None:
        """Ask the program to end."""
        self._signal(self._process.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill what is left of it."""
        for pid in descendants(self._process.pid):
            self._signal(pid, signal.SIGKILL)
        self._process.wait()

    def processor_seconds(self) -> float:
        """Return the processor time of its processes that are alive."""
        times = [stat_of(pid) for pid in descendants(self._process.pid)]
        return sum(int(fields[USER]) + int(fields[SYSTEM]) for fields in times if fields) / TICKS

    def children_map(self, suffix: str) -> bool:
        """Whether a process that it started has a file mapped whose name ends so."""
        for pid in descendants(self._process.pid)[1:]:
            with suppress(OSError):
                lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
                if any(line.endswith(suffix) for line in lines):
                    return True
        return False

    def _signal(self, pid: int, number: int) -> None:
        # A program of this script's own user only; the first process may already have been reaped.
        if pid == self._process.pid and self.ended():
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
