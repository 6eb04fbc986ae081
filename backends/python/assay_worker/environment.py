"""The environment variables that decide how a framework computes."""

from __future__ import annotations

import os

PLACE = "_DIR"  # the end of a variable that names a folder: it differs from fork to fork and changes no speed


def variables(*prefixes: str) -> dict[str, str]:
    """Return the variables of this process whose names begin with one of the prefixes, sorted by name."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(prefixes) and not name.endswith(PLACE)
    }
