"""A conversation with a worker, as the conductor has it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worker_under_test import ROOT

NUMPY = ROOT / "tests/numpy_backend/worker.py"
Events = list[dict[str, Any]]


def talk(
    folder: Path,
    commands: Sequence[Any],
    worker: Sequence[object] = (sys.executable, NUMPY),
    variables: Mapping[str, str] | None = None,
) -> tuple[Events, int]:
    """Start this worker for a cell folder and send it the commands; return its events and exit status."""
    command_end, to_worker = os.pipe()
    from_worker, event_end = os.pipe()

    def descriptors() -> None:
        os.dup2(os.dup(event_end), 4)
        os.dup2(os.dup(command_end), 3)

    # A word is a command; any other text is sent unchanged.
    named = [{"command": c} if isinstance(c, str) and c.isalpha() else c for c in commands]
    lines = [c if isinstance(c, str) else json.dumps(c) for c in named]
    os.write(to_worker, "".join(line + "\n" for line in lines).encode())
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, worker), str(folder)],
            stdout=log,
            stderr=log,
            cwd=folder,
            close_fds=False,
            preexec_fn=descriptors,
            env=os.environ | dict(variables or {}),
        )
    for end in (command_end, event_end, to_worker):
        os.close(end)
    with os.fdopen(from_worker, "rb") as events:
        heard = [json.loads(line) for line in events]
    return heard, process.wait()
