"""What a cell may ask of MXNet, and what was observed of the process."""

from __future__ import annotations

import ctypes
import os
import platform

import mxnet as mx
from assay_worker import Cell, Unsupported, variables

STATIC = {"static_alloc": True, "static_shape": True}


def refuse_cell(cell: Cell) -> None:
    if cell.mode not in ("eager", "hybridize"):
        raise Unsupported(f"mode {cell.mode!r}: eager and hybridize are known")


def observed() -> dict[str, str]:
    features = mx.runtime.Features()
    return {
        "threads": str(ctypes.CDLL("libgomp.so.1").omp_get_max_threads()),
        "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
        "onednn": str(features.is_enabled("MKLDNN")),
        "python": platform.python_version(),
        **variables("MXNET_", "MKLDNN_", "DNNL_", "OMP_", "GOMP_"),
    }
