"""What failed in scripts/test, shortly: printed last, where a log that is cut in the middle still has it.

    test_failures.py STAGE=FOLDER...

STAGE is one that failed. FOLDER has the JUnit files of its tests: one for each GoogleTest program or
pytest, and ctest.junit with the programs themselves. A stage without a failed test there shows the end
of STAGE.failed, its log.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

MAX_LINES = 60
MAX_LINES_OF_ONE = 12
MAX_WIDTH = 200


@dataclass(frozen=True)
class Failure:
    """A test or a stage, and the lines that say why it failed."""

    name: str
    lines: list[str]


def lines_of(text: str) -> list[str]:
    return [line.rstrip()[:MAX_WIDTH] for line in text.splitlines() if line.strip()]


def of_pytest(path: Path) -> list[Failure]:
    failures = []
    for case in ET.parse(path).getroot().iter("testcase"):
        texts = [found.text or "" for kind in ("failure", "error") for found in case.findall(kind)]
        if not texts:
            continue
        lines = [line for text in texts for line in lines_of(text)]
        reasons = [line for line in lines if line.startswith("E ")] or lines[-MAX_LINES_OF_ONE:]
        file = (case.get("classname") or "").replace(".", "/")
        failures.append(Failure(f"{file}.py::{case.get('name')}", reasons))
    return failures


def of_googletest(path: Path) -> list[Failure]:
    failures = []
    for case in ET.parse(path).getroot().iter("testcase"):
        lines = [line for found in case.findall("failure") for line in lines_of(found.get("message") or "")]
        if lines:
            failures.append(Failure(f"{path.stem}: {case.get('classname')}.{case.get('name')}", lines))
    return failures


def of_ctest(folder: Path) -> list[Failure]:
    """Return the failed cases of each program; the end of its output if it left none, as after a crash."""
    failures = []
    for program in ET.parse(folder / "ctest.junit").getroot().iter("testcase"):
        if (failed := program.find("failure")) is None:
            continue
        name = str(program.get("name"))
        cases = of_googletest(folder / f"{name}.xml") if (folder / f"{name}.xml").exists() else []
        output = lines_of(program.findtext("system-out") or "")[-MAX_LINES_OF_ONE + 1 :]
        failures += cases or [Failure(name, [failed.get("message") or "it failed", *output])]
    return failures


def failures_of(stage: str, folder: Path) -> list[Failure]:
    found: list[Failure] = []
    if stage == "pytest" and (folder / "pytest.xml").exists():
        found = of_pytest(folder / "pytest.xml")
    elif stage.startswith("ctest") and (folder / "ctest.junit").exists():
        found = of_ctest(folder)
    if not found:
        log = lines_of((folder / f"{stage}.failed").read_text(errors="replace"))
        found = [Failure(stage, log[-MAX_LINES_OF_ONE:])]
    return found


def shown(failures: list[Failure]) -> list[str]:
    """Return the name of each failure and the same number of lines of each, in all at most MAX_LINES."""
    of_one = min(MAX_LINES_OF_ONE, MAX_LINES // max(1, len(failures)) - 1)
    lines = []
    for failure in failures:
        lines += [failure.name, *(f"    {line}" for line in failure.lines[: max(0, of_one)])]
    if len(lines) > MAX_LINES:
        lines = [*lines[: MAX_LINES - 1], f"and {len(lines) - MAX_LINES + 1} more"]
    return lines


def main() -> None:
    stages = [(stage, Path(folder)) for stage, _, folder in (word.partition("=") for word in sys.argv[1:])]
    failures = [failure for stage, folder in stages for failure in failures_of(stage, folder)]
    print(f"\n== What failed ({len(failures)})")
    print("\n".join(shown(failures)), flush=True)


if __name__ == "__main__":
    main()
