"""Tests of the folders of a worker's files."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from assay_worker.errors import Unavailable
from assay_worker.folders import require_executable


def test_a_cache_without_exec_names_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = []

    def statvfs(path: Path) -> SimpleNamespace:
        asked.append(path)
        return SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID)

    monkeypatch.setattr(os, "statvfs", statvfs)
    with pytest.raises(Unavailable, match=r"noexec.*set TMPDIR"):
        require_executable(tmp_path / "cache" / "inductor")
    assert asked == [tmp_path]


def test_other_folders_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOSUID))
    require_executable(tmp_path / "cache")
