"""Shared by both campaigns: options, results that a later run continues, and runs side by side."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).resolve().parents[2]
Row = dict[str, Any]
Job = TypeVar("Job")


def parser_of(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--side-by-side", type=int, default=2, metavar="N", help="runs at a time (default: 2)"
    )
    program = os.environ.get("ASSAY") or ROOT / "build/release/assay"
    parser.add_argument("--assay", type=Path, default=Path(program))
    parser.add_argument("--out", type=Path, help="file of results, a line each; a later run continues it")
    parser.add_argument("--markdown", type=Path, help="file for the table of a page")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the command line; the program must be there."""
    given = parser.parse_args()
    if not given.assay.exists():
        parser.error(f"{given.assay} is missing: build it, or name another program with --assay")
    return given


class OtherProgram(Exception):
    """The file has the results of another program, or of other sources."""


class Results:
    """The rows of a campaign by key. Its file has a line for the program, then one for each row.

    sources: the files that decide the results in addition to the program and the adapters.
    """

    def __init__(self, file: Path | None, program: Path, sources: Sequence[Path] = ()) -> None:
        self.rows: dict[str, Row] = {}
        self._file = file
        asked = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
        head = {"program": " ".join(asked.stdout.split()), "sources": digest_of(sources)}
        if file and file.exists():
            whole = file.read_text().rpartition("\n")[0]  # a killed campaign may leave half a line
            first, *lines = whole.split("\n")
            if json.loads(first) != head:
                raise OtherProgram(f"{file}: the results are of {first}, this is {json.dumps(head)}")
            self.rows = {row["key"]: row for row in map(json.loads, lines)}
            file.write_text(whole + "\n")
        elif file:
            file.write_text(json.dumps(head) + "\n")

    def add(self, key: str, row: Row) -> None:
        self.rows[key] = {"key": key} | row
        if self._file:
            with self._file.open("a") as file:
                file.write(json.dumps(self.rows[key]) + "\n")


def digest_of(sources: Sequence[Path]) -> str:
    adapters = [*ROOT.glob("backends/*/**/*.py"), *ROOT.glob("tests/numpy_backend/*.py")]
    total = hashlib.sha256()
    for source in sorted([*adapters, *sources]):
        total.update(source.read_bytes())
    return total.hexdigest()


def shares(processors: Collection[int], count: int) -> list[set[int]]:
    """Divide processors among `count` runs; if there are more runs, several have the same processor."""
    ordered = sorted(processors)
    step = min(count, len(ordered))
    return [set(ordered[first % step :: step]) for first in range(count)]


def run_all(
    jobs: Iterable[tuple[str, Job]], run: Callable[[Job], Row], results: Results, side_by_side: int
) -> None:
    """Run the jobs that have no result yet, several at a time; show how many are done.

    Each has processors of its own: Assay starts a worker with one thread on the first that it may use.
    """
    missing = {key: job for key, job in jobs if key not in results.rows}
    share = cycle(shares(os.sched_getaffinity(0), side_by_side))
    # What a thread starts may run where the thread may.
    with ThreadPoolExecutor(side_by_side, initializer=lambda: os.sched_setaffinity(0, next(share))) as pool:
        tasks = {pool.submit(run, job): key for key, job in missing.items()}
        try:
            for number, task in enumerate(as_completed(tasks)):
                results.add(tasks[task], task.result())
                print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr, flush=True)
        finally:
            pool.shutdown(cancel_futures=True)
    print(file=sys.stderr)


def processor_minutes() -> float:
    """Return the processor time of all processes of the campaign that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(one.ru_utime + one.ru_stime for one in used) / 60
