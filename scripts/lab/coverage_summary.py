#!/usr/bin/env python3
"""Print what share of the lines of each source folder was executed, from the counts of gcc's --coverage.

scripts/lab/coverage_summary.py BUILD   BUILD: a folder with .gcno and .gcda files of scripts/lab/coverage
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("harness", "workloads", "backends")
BATCH = 50  # files for one call of gcov

# For each file: whether a line was executed, by line number.
Lines = dict[Path, dict[int, bool]]


def gcov(notes: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield gcov's output for each object file. Without a .gcda it never ran: no line was executed."""
    for first in range(0, len(notes), BATCH):
        command = ["gcov", "--json-format", "--stdout", *map(str, notes[first : first + BATCH])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:  # an interrupted build, or another compiler
            sys.exit(f"error: gcov cannot read the counts: {done.stderr.strip()}")
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def executed_lines(build: Path, root: Path) -> Lines:
    """Merge the counts of all object files: a header is compiled into many of them."""
    found: Lines = defaultdict(dict)
    for document in gcov(sorted(build.rglob("*.gcno"))):
        folder = Path(document["current_working_directory"])
        for file in document["files"]:
            path = (folder / file["file"]).resolve()
            if not path.is_relative_to(root) or path.relative_to(root).parts[0] not in SOURCES:
                continue
            lines = found[path.relative_to(root)]
            for line in file["lines"]:
                number = line["line_number"]
                lines[number] = lines.get(number, False) or line["count"] > 0
    return found


def folder_of(path: Path) -> str:
    """harness/conductor/run and harness/core, backends/onednn, workloads: one library each."""
    depth = 3 if path.parts[:2] == ("harness", "conductor") else 2
    return "/".join(path.parts[:-1][:depth])


def summary(lines: Lines) -> list[str]:
    """Return one line per folder, and one for all."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, executed in lines.items():
        for name in (folder_of(path), "all"):
            counts[name][0] += sum(executed.values())
            counts[name][1] += len(executed)
    folders = sorted(name for name in counts if name != "all")
    rows = [(name, counts[name][0], counts[name][1]) for name in [*folders, "all"] if counts[name][1]]
    width = max((len(name) for name, _, _ in rows), default=0)
    return [
        f"{name:{width}}  {100 * ran / total:5.1f} %  {ran} of {total} lines" for name, ran, total in rows
    ]


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    lines = executed_lines(Path(arguments[0]).resolve(), ROOT)
    if not lines:
        print(f"error: {arguments[0]} has no .gcno file: scripts/lab/coverage builds it", file=sys.stderr)
        return 2
    print("\n".join(summary(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
