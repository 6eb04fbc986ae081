"""Wrong adapters on purpose: tests/mutants. The long campaign over all frameworks is scripts/mutants."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from program import PROGRAM
from worker_under_test import ROOT

sys.path.insert(0, str(ROOT / "tests/mutants"))
from edits import EDITS, Edit
from wrong import MUTANTS, Mutant


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: f"{edit.backend}: {edit.name}")
def test_every_edit_fits_its_file(edit: Edit) -> None:
    source = (ROOT / "backends" / edit.backend / edit.file).read_text()
    assert source.count(edit.old) == 1
    assert edit.old != edit.new


@pytest.mark.parametrize("kind", MUTANTS.values(), ids=lambda kind: kind.__name__)
def test_every_mutant_says_what_is_wrong(kind: type[Mutant]) -> None:
    assert kind.__doc__ and kind.__doc__ != Mutant.__doc__


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_check_finds_every_mistake_of_the_plain_adapter() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/mutants/run.py"), "--assay", str(PROGRAM), "--backends", "numpy"],
        capture_output=True, text=True, env=dict(os.environ), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    if "not set up" not in done.stdout:
        assert "mistakes: 18 of 18 found" in done.stdout
        assert "adapters as they are: 2 of 2 ok" in done.stdout
