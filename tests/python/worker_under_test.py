"""The adapters under test. Both files are called worker.py, and so cannot be imported by name."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType

from assay_worker import TrainingAdapter

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("ASSAY_BUILD", ROOT / "build/dev")) / "libassay_batch.so"


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), ROOT / path / "worker.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numpy_adapter() -> type[TrainingAdapter]:
    return _load("tests/numpy_backend").NumpyAdapter
