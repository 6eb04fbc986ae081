"""What a cell asks of the whole process, what was observed of it, and how a function is run in each mode."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from assay_worker import Cell, Unsupported, variables
from tensorflow.python.util import _pywrap_util_port

# `autocluster` was switched on before TensorFlow was imported; `fit` compiles as Keras does on a CPU.
MODES: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "eager": lambda function: function,
    "graph": tf.function,
    "xla": lambda function: tf.function(function, jit_compile=True),
    "autocluster": tf.function,
    "fit": tf.function,
}


def refuse_cell(cell: Cell) -> None:
    if cell.mode not in MODES:
        raise Unsupported(f"mode {cell.mode!r}: {', '.join(MODES)} are known")


def configure(cell: Cell) -> None:
    """Set what holds for the whole process."""
    tf.config.threading.set_intra_op_parallelism_threads(cell.threads)
    # As many as the budget, which is TensorFlow's default: with one, independent ops wait for each other.
    tf.config.threading.set_inter_op_parallelism_threads(cell.threads)
    keras.mixed_precision.set_global_policy("mixed_bfloat16" if cell.precision == "bf16" else "float32")


def observed(function: Callable[..., Any] | None = None) -> dict[str, str]:
    found = {
        "threads": str(tf.config.threading.get_intra_op_parallelism_threads()),
        "interop_threads": str(tf.config.threading.get_inter_op_parallelism_threads()),
        "auto_jit": str(tf.config.optimizer.get_jit() or "off"),
        "policy": keras.mixed_precision.dtype_policy().name,
        # TensorFlow decides by the processor, unless TF_ENABLE_ONEDNN_OPTS does.
        "onednn": str(_pywrap_util_port.IsMklEnabled()),
        "python": platform.python_version(),
        **variables("TF_", "XLA_", "DNNL_", "ONEDNN_"),
    }
    if traced := getattr(function, "experimental_get_tracing_count", None):
        # More than one means that it was traced and compiled anew.
        found["compiled_graphs"] = str(traced())
    return found
