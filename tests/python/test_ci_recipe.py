"""docs/how-to/ci.md: the recipe with stored baselines, from a push to its verdict.

Its steps run as they are on the page. Instead of a build there are workers that declare their times.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from program import PROGRAM, ROOT, assay

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: scripts/setup installs it")

FAULTS = PROGRAM.parent / "tests/faults"
pytestmark = pytest.mark.skipif(
    not (FAULTS / "slower_worker").exists(), reason=f"{FAULTS}/slower_worker is not built"
)

# Instead of the networks of the page: cells whose steps take declared times.
CELLS = {"workload": "mlp", "dataset": "synthetic", "samples": 512, "batch": [32, 64], "backend": "fault",
         "mode": "good", "threads": 1, "blocks": 3, "check": False}  # fmt: skip
# "Builds" the workers that the test names, and the program that measures with them. The times are declared,
# but other tests may disturb the rounds in which they are waited through. The stand-in reports the number of
# its process as a setting.
BUILD = f"""
build() {{
  mkdir -p build/release
  cat >build/release/assay <<END
#!/bin/bash
export ASSAY_BACKENDS={FAULTS}/$WORKERS
words=("\\${{@/spine-speed/cells.json}}")
[[ \\$1 != compare ]] || words+=(--allow flags,settings,unchecked)
exec {PROGRAM} "\\${{words[@]}}"
END
  chmod +x build/release/assay
}}
"""


def steps_of_the_page() -> list[dict[str, Any]]:
    page = (ROOT / "docs/how-to/ci.md").read_text()
    recipe = page.split("## GitHub Actions, your own runner")[1].split("## GitLab")[0]
    (workflow,) = re.findall(r"```yaml\n(.*?)```", recipe, re.DOTALL)
    steps: list[dict[str, Any]] = yaml.safe_load(workflow)["jobs"]["compare"]["steps"]
    return steps


class Runner:
    """A runner of one's own, whose home has the baselines."""

    def __init__(self, folder: Path) -> None:
        self.home, self.tree = folder / "home", folder / "tree"
        self.home.mkdir()
        (self.tree / "scripts").mkdir(parents=True)
        (self.tree / "scripts/common.sh").write_text(BUILD)
        (self.tree / "cells.json").write_text(json.dumps(CELLS))
        self.steps = [step for step in steps_of_the_page() if "run" in step]

    def event(self, name: str, workers: str) -> tuple[int, str]:
        """Run the job of an event and check its exit code. Return that of the comparison, and the output."""
        outputs = self.tree / "outputs"
        outputs.write_text("")
        text, job = "", 0
        for step in self.steps:
            if "if" in step:
                assert step["if"] == "github.event_name == 'push'"
                if name != "push" or job != 0:
                    continue
            elif job != 0:
                continue
            environment = os.environ | {
                "HOME": str(self.home),
                "ASSAY_CACHE": str(self.home / "cache"),
                "GITHUB_OUTPUT": str(outputs),
                "WORKERS": workers,
            }
            for key, value in step.get("env", {}).items():
                assert value == "${{ steps.verdict.outputs.code }}"
                environment[key] = outputs.read_text().strip().removeprefix("code=")
            done = subprocess.run(
                ["bash", "-ec", step["run"]], cwd=self.tree, env=environment, capture_output=True, text=True,
                timeout=300, check=False,
            )  # fmt: skip
            job = done.returncode
            text += done.stdout + done.stderr
        code = int(outputs.read_text().strip().removeprefix("code="))
        assert job == (0 if code in (0, 5, 6) else code), text
        return code, text

    def baselines(self) -> list[Path]:
        return sorted(self.home.glob("baselines/*/*.json"))


def test_a_push_gets_the_verdict_that_it_deserves(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    code, text = runner.event("push", "backends")
    assert code == 5, text
    assert "::warning::no baseline fits" in text
    machine = assay("env", "--fingerprint").stdout.strip()
    assert [file.parent.name for file in runner.baselines()] == [machine]
    code, text = runner.event("push", "backends")
    assert code == 6, text
    while code == 6:  # the baselines begin to show how runs differ
        assert len(runner.baselines()) < 5, text
        code, text = runner.event("push", "backends")
    assert code == 0, text
    stored = runner.baselines()
    code, text = runner.event("pull_request", "backends")
    assert code == 0, text
    assert "would have been found with 80 %" in text

    code, text = runner.event("push", "slower")
    assert code == 3, text
    assert text.count("1.200 times the baseline") == len(CELLS["batch"])
    assert runner.baselines() == stored, "neither of a pull request nor of slower code"
    base, now = (json.loads(path.read_text()) for path in (stored[0], runner.tree / "report.json"))
    workers = [report["cells"][0]["libraries"][0] for report in (base, now)]
    assert all(worker["under_test"] for worker in workers)
    assert workers[0]["version"] != workers[1]["version"]


def test_the_page_names_every_finding_that_can_be_allowed() -> None:
    page = (ROOT / "docs/how-to/ci.md").read_text()
    words = re.search(
        r"must be one of (.*), or libraries:NAME", assay("compare", "a", "b", "--allow", "no").stderr
    )
    assert words
    for word in re.split(r", | or ", words[1]):
        assert f"`{word}`" in page or f"--allow {word}`" in page, word
