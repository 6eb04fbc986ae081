"""An environment knows the bytes of its files, and its worker reports them."""

from __future__ import annotations

import sys
from pathlib import Path

import make_environment
import pytest
from assay_worker.installed import installed_size


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    (tmp_path / "lib/package").mkdir(parents=True)
    (tmp_path / "lib/package/code.py").write_bytes(b"x" * 1000)
    (tmp_path / "lib/library.so").write_bytes(b"x" * 500)
    (tmp_path / "lib64").symlink_to("lib")
    (tmp_path / "python").symlink_to("/proc/self/exe")
    return tmp_path


def test_the_size_is_that_of_the_files_without_links(environment: Path) -> None:
    assert make_environment.size_of(environment) == 1500


def test_a_worker_reports_what_was_counted(environment: Path) -> None:
    make_environment.note_size(environment)
    assert installed_size(environment) == {"installed_size": 1500}


def test_an_environment_that_was_made_before_is_counted_now(
    environment: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requirements = environment / "requirements.txt"
    requirements.write_text("package==1\n")
    (environment / "installed.txt").write_text("package==1\n")
    monkeypatch.setattr(sys, "argv", ["make_environment.py", str(requirements), str(environment)])
    assert make_environment.main() == 0
    assert "is there already" in capsys.readouterr().out
    assert installed_size(environment)["installed_size"] > 1500


@pytest.mark.parametrize("text", [None, "many\n"])
def test_nothing_is_reported_where_nobody_counted(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "installed_size").write_text(text)
    assert installed_size(tmp_path) == {}
