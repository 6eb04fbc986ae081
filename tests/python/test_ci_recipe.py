"""docs/how-to/ci.md: the recipe with stored baselines, from a push to its verdict.

The worker is a stand-in that declares its times.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from program import PROGRAM, ROOT, assay

FAULTS = PROGRAM.parent / "tests/faults"
pytestmark = pytest.mark.skipif(
    not (FAULTS / "slower_worker").exists(), reason=f"{FAULTS}/slower_worker is not built"
)

# Instead of the networks of the page: one cell, whose steps take a declared time.
CELL = {"workload": "mlp", "dataset": "synthetic", "samples": 512, "backend": "fault", "mode": "good",
        "threads": 1, "blocks": 3, "check": False}  # fmt: skip


def commands() -> tuple[list[str], list[str]]:
    """The commands of the recipe that measure and compare, without the program's name."""
    page = (ROOT / "docs/how-to/ci.md").read_text()
    recipe = page.split("## GitHub Actions, your own runner")[1].split("## GitLab")[0]
    found = re.findall(r"run: build/release/assay (run .*|compare .*)", recipe)
    assert [words.split()[0] for words in found] == ["run", "compare"]
    return shlex.split(found[0]), shlex.split(found[1])


class Runner:
    """A machine that a push is measured on; `workers` are what was built of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cell.json").write_text(json.dumps(CELL))
        self.run, self.compare = commands()

    def measure(self, workers: str, out: str) -> None:
        words = [{"spine-speed": "cell.json", "report.json": out}.get(word, word) for word in self.run]
        done = assay(*words, folder=self.folder, backends=FAULTS / workers)
        assert done.returncode == 0, done.stderr

    def verdict(self) -> tuple[int, str]:
        # The times are declared, but other tests may disturb the rounds in which they are waited through. The
        # stand-in reports the number of its process as a setting.
        done = assay(*self.compare, "--allow", "flags,settings,unchecked", folder=self.folder)
        return done.returncode, done.stdout + done.stderr


def test_a_push_gets_the_verdict_that_it_deserves(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    machine = assay("env", "--fingerprint").stdout.strip()
    (tmp_path / "results/baselines").mkdir(parents=True)
    runner.measure("backends", "report.json")
    code, text = runner.verdict()
    assert code == 5, text
    assert "no baseline of this machine" in text
    baselines = tmp_path / "results/baselines" / machine
    baselines.mkdir()
    for day in (1, 2, 3):
        runner.measure("backends", f"results/baselines/{machine}/2026-01-0{day}.json")
    code, text = runner.verdict()
    assert code == 0, text
    assert "would have been found with 80 %" in text
    runner.measure("slower", "report.json")
    base, now = (
        json.loads(path.read_text()) for path in (baselines / "2026-01-01.json", tmp_path / "report.json")
    )
    workers = [report["cells"][0]["libraries"][0] for report in (base, now)]
    assert all(worker["under_test"] for worker in workers)
    assert workers[0]["version"] != workers[1]["version"]
    code, text = runner.verdict()
    assert code == 3, text
    assert "1.200 times the baseline" in text


def test_the_page_names_every_finding_that_can_be_allowed() -> None:
    page = (ROOT / "docs/how-to/ci.md").read_text()
    words = re.search(
        r"must be one of (.*), or libraries:NAME", assay("compare", "a", "b", "--allow", "no").stderr
    )
    assert words
    for word in re.split(r", | or ", words[1]):
        assert f"`{word}`" in page or f"--allow {word}`" in page, word
