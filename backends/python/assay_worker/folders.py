"""Folders of a worker's files."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import Unavailable


def require_executable(folder: Path) -> None:
    """Raise Unavailable if compiled code in the folder, which may not exist yet, cannot be loaded."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if os.statvfs(there).f_flag & os.ST_NOEXEC:
        raise Unavailable(
            f"[compile] {folder}: its file system is mounted with noexec, so compiled code cannot be "
            "loaded; set TMPDIR to a folder from which programs may run"
        )
