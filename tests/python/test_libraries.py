"""The libraries that a worker in Python has loaded."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from assay_worker.libraries import with_loaded_libraries


def test_cudnn_tells_its_release(tmp_path: Path) -> None:
    source, library = tmp_path / "cudnn.c", tmp_path / "libcudnn.so.9"
    source.write_text("unsigned long cudnnGetVersion(void) { return 92601; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    assert not [one for one in with_loaded_libraries([]) if one.name == "cuDNN"]
    ctypes.CDLL(str(library))
    (found,) = [one for one in with_loaded_libraries([]) if one.name == "cuDNN"]
    assert (found.version, found.path) == ("9.26.1", str(library))
