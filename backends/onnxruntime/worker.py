"""The ONNX Runtime worker."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from assay_worker import InferenceAdapter, worker_main


def adapter() -> type[InferenceAdapter]:
    from onnxruntime_adapter import OnnxRuntimeAdapter

    return OnnxRuntimeAdapter


if __name__ == "__main__":
    worker_main(adapter)
