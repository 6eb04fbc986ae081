"""The program scripts/lab/campaign as tests call it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from program import PROGRAM, hurried


def campaign(
    name: str, *options: object, program: Path = PROGRAM, patience: float = 20, timeout: float = 1800
) -> subprocess.CompletedProcess[str]:
    """`patience`: the seconds that processes of a run have to end."""
    command = hurried("campaign", "assay_campaign.bench", "PATIENCE", patience)
    command += [name, "--assay", program, *options]
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=timeout
    )
