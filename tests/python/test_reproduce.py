"""The command that a report prints with a row measures that row again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from program import PROGRAM, assay

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

TEXT = "--workload nanogpt --dataset text --sequence-length 16 --batch 2 --backend reference --mode graph"


def test_the_printed_command_names_data_and_variables(tmp_path: Path) -> None:
    text = tmp_path / "my texts" / "tale.txt"
    text.parent.mkdir()
    text.write_text("The quick brown fox jumps over the lazy dog.\n" * 100)
    given = [*TEXT.split(), "--data", "my texts/tale.txt", "--environment", "OMP_PLACES={0},{1}"]
    done = assay("run", *given, "--forks", 0, "--out", "r.json", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    (cell,) = json.loads((tmp_path / "r.json").read_text())["cells"]
    words = shlex.split(cell["reproduce"])
    assert [words[words.index(name) + 1] for name in ("--data", "--environment")] == [given[-3], given[-1]]
    again = assay(*words[1:], "--dry-run", folder=tmp_path)
    assert again.returncode == 0, again.stdout
    assert [cell["id"], "to", "run"] in [line.split() for line in again.stdout.splitlines()]
    text.unlink()
    assert assay(*words[1:], "--dry-run", folder=tmp_path).returncode != 0
