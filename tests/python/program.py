"""The program as tests call it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from worker_under_test import ROOT

BUILD = Path(os.environ.get("ASSAY_BUILD") or ROOT / "build/dev")
PROGRAM = BUILD / "assay"


def assay(
    *arguments: object, timeout: float = 900, folder: Path | None = None, backends: Path = ROOT / "tests"
) -> subprocess.CompletedProcess[str]:
    """Run the program with the tests' backends (or these) and its own, and without a calibration."""
    environment = os.environ | {"ASSAY_BACKENDS": str(backends)}
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=timeout, cwd=folder
    )


def told(*arguments: object, codes: tuple[int, ...] = (0,)) -> Any:
    """Run the program and read the JSON that it prints."""
    done = assay(*arguments)
    assert done.returncode in codes, done.stderr + done.stdout
    return json.loads(done.stdout)


HURRIED = """
import importlib, runpy, sys
folder, script, module, constant, seconds = sys.argv[1:6]
sys.path.insert(0, folder)
setattr(importlib.import_module(module), constant, float(seconds))
sys.argv = [f"{folder}/{script}", *sys.argv[6:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def hurried(script: str, module: str, constant: str, seconds: float) -> list[object]:
    """Return the command of one of scripts/ that waits for a shorter time than for users."""
    return [sys.executable, "-c", HURRIED, ROOT / "scripts/lab", script, module, constant, seconds]
