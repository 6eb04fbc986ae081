"""The size of what a worker runs on."""

from __future__ import annotations

import sys
from pathlib import Path


def installed_size(environment: Path | None = None) -> dict[str, int]:
    """Return the bytes of the worker's virtual environment as `installed_size`; empty if nobody counted.

    make_environment.py counts them, because a worker would need seconds.
    """
    try:
        return {"installed_size": int(((environment or Path(sys.prefix)) / "installed_size").read_text())}
    except (OSError, ValueError):
        return {}
