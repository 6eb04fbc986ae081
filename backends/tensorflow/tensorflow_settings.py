"""Settings of the whole process, requested and observed, and how each mode runs functions."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from assay_worker import (
    Cell,
    Program,
    Unavailable,
    Unsupported,
    memory_share,
    refuse,
    total_gpu_memory,
    variables,
)
from tensorflow.python.util import _pywrap_util_port


def with_xla(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the whole function with XLA."""
    compiled: Callable[..., Any] = tf.function(function, jit_compile=True)
    return compiled


def as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


# Autoclustering was switched on before TensorFlow was imported; `fit` compiles as Keras does on a CPU. From
# `fit` on, this applies only to logits: those modes run their steps in another way.
MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": as_it_is,
    "function": as_it_is,
    "tensordot": as_it_is,
    "layer": as_it_is,
    "graph": tf.function,
    "xla": with_xla,
    "autocluster": tf.function,
    "fit": tf.function,
    "fit-xla": with_xla,
    "fit-autocluster": tf.function,
    "fit-eager": tf.function,
    "fit-generator": tf.function,
    "v1-graph": tf.function,
}


def refuse_cell(cell: Cell, program: Program) -> None:
    """Raise Unsupported if TensorFlow can never run the cell, Unavailable if the device is missing here."""
    refuse(program)
    if cell.mode == "fit-generator" and cell.loader_workers:
        raise Unsupported(
            "[fit-generator] a generator has no workers: --loader-workers 0, or --mode fit for tf.data"
        )
    if cell.device == "cuda" and not tf.config.list_physical_devices("GPU"):
        raise Unavailable(f"TensorFlow {tf.__version__} finds no CUDA device")


def configure(cell: Cell) -> None:
    """Apply the settings of the whole process."""
    gpus = tf.config.list_physical_devices("GPU")
    if cell.device != "cuda":
        tf.config.set_visible_devices([], "GPU")  # else TensorFlow would use a GPU
    elif gpus and (cell.memory_fraction is not None or cell.memory_cap_bytes is not None):
        limit_memory(gpus[0], cell, total_gpu_memory())
    tf.config.threading.set_intra_op_parallelism_threads(cell.threads)
    # Equal to the budget, as is TensorFlow's default: with one thread, independent ops wait for each other.
    tf.config.threading.set_inter_op_parallelism_threads(cell.threads)
    keras.mixed_precision.set_global_policy("mixed_bfloat16" if cell.precision == "bf16" else "float32")


def limit_memory(gpu: Any, cell: Cell, total_bytes: int) -> None:
    """Limit TensorFlow to the requested memory, before it allocates any."""
    if (share := memory_share(cell, total_bytes)) is not None:
        limit = tf.config.LogicalDeviceConfiguration(memory_limit=int(share * total_bytes / 2**20))
        tf.config.set_logical_device_configuration(gpu, [limit])


def observed(function: Callable[..., Any] | None = None) -> dict[str, str]:
    found = {
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
        "interop_threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        "auto_jit": str(tf.config.optimizer.get_jit() or "off"),
        "policy": keras.mixed_precision.dtype_policy().name,
        # TensorFlow decides by the processor, unless TF_ENABLE_ONEDNN_OPTS is set.
        "onednn": str(_pywrap_util_port.IsMklEnabled()),
        "python": platform.python_version(),
        **variables("TF_", "XLA_", "DNNL_", "ONEDNN_"),
    }
    for gpu in tf.config.get_visible_devices("GPU"):
        if limits := tf.config.get_logical_device_configuration(gpu):
            found["memory_limit_mib"] = str(limits[0].memory_limit)
    if traced := getattr(function, "experimental_get_tracing_count", None):
        # More than one means that it was traced and compiled again.
        found["compiled_graphs"] = str(traced())
    return found
