"""What a cell may ask of MXNet, and what was observed of the process."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

import mxnet as mx
from assay_worker import Cell, Unsupported, variables

STATIC = {"static_alloc": True, "static_shape": True}
# What each mode hybridizes with; nothing: it is imperative.
MODES: dict[str, dict[str, Any]] = {
    "eager": {},
    "hybridize": STATIC,
    "mkldnn": STATIC | {"backend": "MKLDNN"},
}


def refuse_cell(cell: Cell) -> None:
    if cell.mode not in MODES:
        raise Unsupported(f"mode {cell.mode!r}: {', '.join(MODES)} are known")
    if cell.mode == "mkldnn" and cell.task != "infer":
        raise Unsupported("[mkldnn] MXNet's oneDNN subgraphs have no gradients: --task infer")


def observed() -> dict[str, str]:
    features = mx.runtime.Features()
    return {
        "threads": str(ctypes.CDLL("libgomp.so.1").omp_get_max_threads()),
        "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
        "onednn": str(features.is_enabled("MKLDNN")),
        "python": platform.python_version(),
        **variables("MXNET_", "MKLDNN_", "DNNL_", "OMP_", "GOMP_"),
    }
