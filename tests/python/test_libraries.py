"""The libraries that a worker in Python has loaded."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest
from assay_worker.libraries import cudnn_version, with_loaded_libraries


@pytest.mark.parametrize(("number", "release"), [(92601, "9.26.1"), (8907, "8.9.7")])
def test_cudnn_tells_its_release(tmp_path: Path, number: int, release: str) -> None:
    source, library = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text(f"unsigned long cudnnGetVersion(void) {{ return {number}; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    assert not [one for one in with_loaded_libraries([]) if one.path == str(library)]
    ctypes.CDLL(str(library))
    (found,) = [one for one in with_loaded_libraries([]) if one.path == str(library)]
    assert (found.name, found.version) == ("cuDNN", release)


def test_a_library_that_only_has_its_name_is_no_error(tmp_path: Path) -> None:
    library = tmp_path / "libcudnn.so.9"
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", str(library)], check=True)
    ctypes.CDLL(str(library))
    (found,) = [one for one in with_loaded_libraries([]) if one.path == str(library)]
    assert not found.version or found.version.startswith("build-id")
    assert cudnn_version(str(tmp_path / "nothing")) == ""
