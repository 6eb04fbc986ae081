"""The program assay as a wheel installs it: this folder has its bin, lib, libexec and share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

FOLDER = Path(__file__).resolve().parent


def main() -> NoReturn:
    """Become the program, which finds its backends and configs by its own place."""
    program = FOLDER / "bin/assay"
    if not os.access(program, os.X_OK):
        sys.exit(
            f"assay: {program} is not there or cannot be executed; "
            "this is not a complete wheel of Assay: install it again with pip, or build it with scripts/wheel"
        )
    os.execv(program, [sys.argv[0], *sys.argv[1:]])
