"""The commands in the documentation. A comment `<!-- example -->` above a block marks it as an example."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worker_under_test import ROOT

EXAMPLE = "<!-- example -->"
PROGRAMS = (
    r"(?:[A-Z_]+=\S+ )*(?:(?:build/\w+/)?assay |scripts/|\.ci/|build/|cmake |ninja |ctest |python3? |jq )"
)
SHELL = r"export |echo |timeout |\. scripts/|source |assay/bin/|\"\$"
BEGIN = re.compile(rf"{PROGRAMS}|{SHELL}")


def blocks(text: str) -> Iterator[tuple[str, list[str], bool]]:
    """The code blocks of a page: language, lines, and whether it is marked as an example."""
    lines = [*text.splitlines(), "", ""]
    block: list[str] = []
    fence: str | None = None
    marked = False
    for number, line in enumerate(lines):
        if fence is not None:
            if line.startswith("```"):
                yield fence, block, marked
                block, fence, marked = [], None, False
            else:
                block.append(line)
        elif line.startswith("```"):
            fence = line[3:]
        elif line.startswith("    ") and (block or not lines[number - 1].strip()):
            block.append(line)
        elif block and not line.strip() and lines[number + 1].startswith("    "):
            block.append("")
        else:
            if block:
                least = min(len(one) - len(one.lstrip()) for one in block if one)
                yield "", [one[least:] for one in block], marked
                block, marked = [], False
            if line.strip():
                marked = line == EXAMPLE


def commands_of(text: str) -> Iterator[str]:
    """The commands of the blocks that are not marked, each on one line, without comments."""
    for language, lines, marked in blocks(text):
        if marked or language not in ("", "sh"):
            continue
        for part in re.split(r"\n\s*\n", "\n".join(lines)):
            if BEGIN.match(part):
                joined = re.sub(r"\\\n|\|\n", lambda end: "| " if end[0][0] == "|" else " ", part)
                if language == "sh" and part.startswith("jq"):
                    yield from re.split(r"\n(?=jq )", joined)
                else:
                    yield from (re.sub(r"\s+#\s.*", "", line).strip() for line in joined.split("\n"))


def command_in(page: str, begin: str, changes: dict[str, str]) -> str:
    """Return the command of a page that begins so, also of an example, on one line, with other texts in it.

    There must be one, and each text that is changed must be in it: so a test runs what the page says.
    """
    parts = ["\n".join(lines) for _, lines, _ in blocks((ROOT / page).read_text(encoding="utf-8"))]
    joined = [line for part in parts for line in re.sub(r" *\\\n *", " ", part).splitlines()]
    (command,) = [line for line in joined if line.startswith(begin)]
    for old, new in changes.items():
        assert old in command, f"{page}: {old} is not in {command}"
        command = command.replace(old, new)
    return command
