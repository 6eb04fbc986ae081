"""Settings that a cell may request from MXNet, and settings observed in the process."""

from __future__ import annotations

import ctypes
import os
import platform
from typing import Any

import mxnet as mx
from assay_worker import Cell, Program, Unavailable, refuse, variables

STATIC = {"static_alloc": True, "static_shape": True}
PLAIN = {"static_alloc": False, "static_shape": False}  # the defaults of hybridize()
# Both differ in the variables that the conductor sets: backend.json, thread_teams and own_threads.
TWO_CONTEXTS = ("two-contexts", "two-contexts-own-threads")
# The arguments of hybridize() in each mode; empty: imperative.
MODES: dict[str, dict[str, Any]] = {
    "eager": {},
    "function": {},
    "layer": {},
    "two-contexts": {},
    "two-contexts-own-threads": {},
    "hybridize": STATIC,
    "hybridize-plain": PLAIN,
    "mkldnn": STATIC | {"backend": "MKLDNN"},
}


def refuse_cell(cell: Cell, program: Program) -> None:
    """Raise Unsupported if MXNet can never run the cell, Unavailable if the device is missing here."""
    refuse(program)
    if cell.device == "cuda" and mx.context.num_gpus() == 0:
        raise Unavailable(f"MXNet {mx.__version__} finds no CUDA device")


def use_device(cell: Cell) -> None:
    """Make the cell's device the default for new arrays."""
    if cell.device == "cuda":
        mx.gpu(0).__enter__()  # never left: a worker runs one cell


def observed() -> dict[str, str]:
    features = mx.runtime.Features()
    return {
        "threads": str(ctypes.CDLL("libgomp.so.1").omp_get_max_threads()),
        "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
        "onednn": str(features.is_enabled("MKLDNN")),
        "python": platform.python_version(),
        **variables("MXNET_", "MKLDNN_", "DNNL_", "OMP_", "GOMP_"),
    }
