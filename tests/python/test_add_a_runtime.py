"""The backends of docs/how-to/add-a-runtime.md, as a reader copies them out of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from framework import ENVIRONMENTS
from program import PROGRAM, assay
from worker_under_test import ROOT

PAGE = (ROOT / "docs/how-to/add-a-runtime.md").read_text(encoding="utf-8")
PYTHON = ENVIRONMENTS / "runtimes/bin/python"


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.skipif(not PYTHON.exists(), reason="tract and IREE are not set up: scripts/setup --runtimes")
@pytest.mark.parametrize("name", ["tract", "iree"])
def test_its_backends_pass_the_check(name: str, tmp_path: Path) -> None:
    (description,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (worker,) = (
        code for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if f'Info("{name}"' in code
    )
    home = tmp_path / "backends" / name
    home.mkdir(parents=True)
    own = json.loads(description) | {"name": name, "framework": name}
    (home / "backend.json").write_text(json.dumps(own))
    (home / "worker.py").write_text(worker)
    done = assay(
        "check", "--workload", "mlp,lenet5,resnet56,minilm", "--task", "infer",
        "--backend", name, "--interpreter", f"{name}={PYTHON}", "--batch", "2", "--threads", "1", "--json",
        backends=tmp_path / "backends",
    )  # fmt: skip
    cells = json.loads(done.stdout)["cells"]
    assert len(cells) == 4, done.stderr
    for cell in cells:
        assert cell["status"] == "ok", cell["reason"]
        assert 0 < cell["equivalence"]["worst"] < 0.3
