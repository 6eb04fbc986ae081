"""The environment variables that control how a framework computes."""

from __future__ import annotations

import os

PLACE = "_DIR"  # suffix of variables that name a folder: they differ between forks and do not affect speed


def variables(*prefixes: str) -> dict[str, str]:
    """Return the variables of this process that begin with one of the prefixes, sorted by name."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(prefixes) and not name.endswith(PLACE)
    }
