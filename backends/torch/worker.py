"""The PyTorch worker."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from assay_worker import TrainingAdapter, worker_main
from assay_worker.folders import require_executable


def adapter() -> type[TrainingAdapter]:
    # Read on import: a fork compiles from nothing, unless the conductor names a cache.
    cache = Path(sys.argv[1]).resolve() / "cache"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(cache / "triton"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", os.environ.get("OMP_NUM_THREADS", "1"))
    request = json.loads((Path(sys.argv[1]) / "request.json").read_text())
    if str(request.get("mode")).startswith("compile") or request.get("mode") in ("freeze", "aot"):
        require_executable(Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]))
    if request.get("deterministic") and request.get("device") == "cuda":
        # Read when cuBLAS starts. Without it PyTorch refuses products in deterministic mode.
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    from torch_adapter import TorchAdapter

    return TorchAdapter


if __name__ == "__main__":
    worker_main(adapter)
