"""Writes the lists of ops in each backend.json from the tables of the backends' own sources.

    scripts/lab/op-lists [--check]

`ops` are those that a backend has: in Python the keys of OPS (of assay_onnx, if the backend reads ONNX),
and LOSS; in C++ the entries OpEntry.
The list `other_ops` of a refusal of one mode has the keys of that mode's table, where a literal table exists:
FUNCTIONS, TENSORDOT or LAYERS. Nothing is imported or built.
--check writes nothing, and ends with exit code 1 if a list differs.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLES = {"function": "FUNCTIONS", "tensordot": "TENSORDOT", "layer": "LAYERS"}


def descriptions() -> list[Path]:
    """Return the backend.json files whose lists can be read from a source."""
    found = [*(ROOT / "backends").glob("*/backend.json"), ROOT / "tests/numpy_backend/backend.json"]
    return sorted(file for file in found if ops_of(file.parent))


def tables_of(folder: Path) -> dict[str, set[str]]:
    """Return the texts of each module-level table or constant of the adapter, by name."""
    found: dict[str, set[str]] = {}
    for source in folder.glob("*.py"):
        for statement in ast.parse(source.read_text()).body:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            value = getattr(statement, "value", None)
            keys = value.keys if isinstance(value, ast.Dict) else [value]
            texts = {key.value for key in keys if isinstance(key, ast.Constant)}
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).update(str(text) for text in texts)
    return found


def ops_of(folder: Path) -> set[str]:
    """Return the ops of a backend; none if its sources say nothing."""
    if (folder / "worker.py").exists():
        reads_onnx = any("assay_onnx" in source.read_text() for source in folder.glob("*.py"))
        tables = tables_of(ROOT / "backends/python/assay_onnx" if reads_onnx else folder)
        return tables.get("OPS", set()) | tables.get("LOSS", set())
    sources = [*folder.rglob("*.cpp"), *folder.rglob("*.cu")]
    return {op for file in sources for op in re.findall(r'OpEntry\{"(\w+)"', file.read_text())}


def lists(folder: Path) -> list[tuple[str, list[str]]]:
    """Return the lists of a backend.json: the beginning of the text before each, and its ops."""
    found = [('\n  "ops": ', sorted(ops_of(folder)))]
    tables = tables_of(folder)
    for rule in json.loads((folder / "backend.json").read_text()).get("refuses", []):
        (mode, *more) = rule.get("modes", [""])
        if "other_ops" in rule and not more and TABLES.get(mode, "") in tables:
            found.append(
                (
                    f'{{"modes": ["{mode}"], "single_ops": true,\n      "other_ops": ',
                    sorted(tables[TABLES[mode]]),
                )
            )
    return found


def wrapped(ops: list[str], first: int, indent: str, width: int = 118) -> str:
    """Return a JSON list, whose first line begins at a column."""
    lines: list[str] = []
    line = "["
    for number, op in enumerate(ops):
        word = f'"{op}"' + ("]" if number + 1 == len(ops) else ", ")
        if len(line) + len(word.rstrip()) + (0 if lines else first) > width:
            lines.append(line.rstrip())
            line = indent
        line += word
    return "\n".join([*lines, line])


def rewritten(file: Path) -> str:
    """Return the text of a backend.json with the lists that it should have."""
    text = file.read_text()
    for head, ops in lists(file.parent):
        begin = text.index(head) + len(head)
        end = text.index("]", begin) + 1
        column = len(head.rpartition("\n")[2])
        indent = " " * (column - len(head.rpartition("\n")[2].lstrip()) + 2)
        text = text[:begin] + wrapped(ops, column, indent) + text[end:]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    old = [file for file in descriptions() if rewritten(file) != file.read_text()]
    for file in old:
        if not given.check:
            file.write_text(rewritten(file))
        print(f"{file.relative_to(ROOT)}: {'differs from' if given.check else 'written from'} its sources")
    return int(given.check and bool(old))


if __name__ == "__main__":
    sys.exit(main())
