"""Settings of the whole process, as a cell requests them and as observed, and copies of arrays."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from assay_worker import Cell, Unavailable, memory_share, total_gpu_memory, variables
from jax import Array
from jax._src.lib import cuda_versions  # JAX has no public name for the versions of its libraries

CHANNELS_FIRST = "channels_first"
ALIGNMENT = 64  # in bytes: XLA needs it of memory that it takes over on a CPU


def limit_memory(cell: Cell, total_bytes: int) -> None:
    """Limit JAX to the requested memory, before it starts its backend."""
    # Without preallocation XLA's allocator grows up to this share.
    if (share := memory_share(cell, total_bytes)) is not None:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{share:.6g}"


def configure(cell: Cell) -> None:
    """Apply the settings of the whole process, before JAX starts its backend."""
    os.environ["PJRT_NPROC"] = str(cell.threads)
    if cell.device == "cuda":
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
        if cell.memory_fraction is not None or cell.memory_cap_bytes is not None:
            limit_memory(cell, total_gpu_memory())
        if cell.deterministic:
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} --xla_gpu_deterministic_ops=true".strip()
        precision = "tensorfloat32" if cell.precision == "tf32" else "highest"
        jax.config.update("jax_default_matmul_precision", precision)
        load_cudnn()
    else:
        jax.config.update("jax_platforms", "cpu")


def load_cudnn() -> None:
    """Load cuDNN, which XLA loads with its first kernel: then it is among the libraries of the hello."""
    if cuda_versions is not None:
        with suppress(RuntimeError):  # XLA says what is missing
            cuda_versions.cudnn_get_version()


def compute_type(cell: Cell) -> jnp.dtype:
    return jnp.bfloat16 if cell.precision == "bf16" else jnp.float32


def device_of(kind: str) -> jax.Device:
    try:
        return jax.local_devices(backend=kind)[0]
    except RuntimeError as error:
        raise Unavailable(f"JAX {jax.__version__} finds no {kind} device: {error}") from error


def put(array: np.ndarray, device: jax.Device) -> Array:
    """Copy once: the array belongs to the batch library, and JAX takes ownership of the copy."""
    # JAX 0.10 keeps a view of an aligned array even with may_alias=False, and copies any other once more.
    memory = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % ALIGNMENT
    held = memory[begin : begin + array.nbytes].view(array.dtype).reshape(array.shape)
    held[...] = array
    return jax.device_put(held, device)


def as_array(value: Array) -> np.ndarray:
    return np.asarray(value.astype(jnp.float32))


def memory_of(device: jax.Device) -> dict[str, int]:
    statistics = device.memory_stats()
    return {"framework_peak": statistics["peak_bytes_in_use"]} if statistics else {}


def observed(step: Callable[..., Any] | None = None) -> dict[str, str]:
    names = [task.joinpath("comm").read_text() for task in Path("/proc/self/task").iterdir()]
    found = {
        "threads": str(sum("XLAEigen" in name for name in names)),
        "matmul_precision": str(jax.config.jax_default_matmul_precision or "default"),
        "async_dispatch": str(jax.config.read("jax_cpu_enable_async_dispatch")),
        "python": platform.python_version(),
        **variables("JAX_", "XLA_", "PJRT_"),
    }
    if compiled := getattr(step, "_cache_size", None):
        # More than one means that it compiled again.
        found["compiled_graphs"] = str(compiled())
    return found
