"""The share of a device's memory that a cell allows a framework to use."""

from __future__ import annotations

import ctypes

from .cell import Cell
from .errors import Unavailable


def memory_share(cell: Cell, total_bytes: int) -> float | None:
    """Return the smaller of --memory-fraction and --memory-cap as a share; None if neither is given."""
    shares = [] if cell.memory_fraction is None else [cell.memory_fraction]
    if cell.memory_cap_bytes is not None:
        shares.append(min(1.0, cell.memory_cap_bytes / total_bytes))
    return min(shares) if shares else None


def total_gpu_memory(driver: str = "libcuda.so.1") -> int:
    """Return the bytes of the first GPU, if a framework does not report them. Raises Unavailable."""
    device, total = ctypes.c_int(), ctypes.c_size_t()
    try:
        cuda = ctypes.CDLL(driver)
    except OSError as error:
        raise Unavailable(f"no driver of an NVIDIA GPU was found: {error}") from error
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device),
    ):
        if status != 0:
            raise Unavailable(f"the driver of the GPU does not report its memory: error {status}")
    return total.value
