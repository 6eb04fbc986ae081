"""The program scripts/campaign as tests call it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from program import PROGRAM
from worker_under_test import ROOT


def campaign(
    name: str, *options: object, program: Path = PROGRAM, timeout: float = 1800
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/campaign"), name, "--assay", str(program)]
    command += map(str, options)
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
