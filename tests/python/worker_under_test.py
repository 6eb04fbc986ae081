"""The adapters under test. Both files are called worker.py, and so cannot be imported by name."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from assay_worker import TrainingAdapter

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = Path(os.environ.get("ASSAY_BUILD", ROOT / "build/dev")) / "libassay_batch.so"
os.environ.setdefault("ASSAY_BATCH_LIBRARY", str(LIBRARY))  # of workers, and of exams in this process


def exam_subject(program: dict[str, Any], task: str) -> dict[str, Any]:
    """Return check/exam.json of a program as graph.json has it."""
    kinds = {"train": "training", "infer": "inference", "decode": "decoding"}
    values = program["inference"]["values"]
    named = {
        field: [value["name"] for value in values if value["role"] == role]
        for field, role in (("parameters", "parameter"), ("running", "state"))
    }
    return {"kind": "op" if program["kind"] == "op" else kinds[task], **named}


def exam_batch(cell_folder: Path, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and labels of a batch of an exam; repeated rows are equal here."""
    check = cell_folder / "check"
    batches = json.loads((check / "batches.json").read_text())
    rows = number * batches["distinct"] + np.array(batches["row_of"])
    return np.load(check / "inputs.npy")[rows], np.load(check / "labels.npy")[rows]


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.replace("/", "_"), ROOT / path / "worker.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numpy_adapter() -> type[TrainingAdapter]:
    return _load("tests/numpy_backend").NumpyAdapter
