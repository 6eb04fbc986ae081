"""The TensorFlow worker."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from assay_worker import TrainingAdapter, worker_main


def adapter() -> type[TrainingAdapter]:
    # Read on import. A worker runs one cell, so the environment may hold its mode.
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    # Where keras.json is: that of the user would change types and layouts.
    os.environ.setdefault("KERAS_HOME", str(Path(sys.argv[1]).resolve() / "cache/keras"))
    request = json.loads((Path(sys.argv[1]) / "request.json").read_text())
    if request.get("mode") in ("autocluster", "fit-autocluster"):
        os.environ["TF_XLA_FLAGS"] = "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"
    if request.get("deterministic"):
        os.environ["TF_DETERMINISTIC_OPS"] = "1"
    from tensorflow_adapter import TensorflowAdapter

    return TensorflowAdapter


if __name__ == "__main__":
    worker_main(adapter)
