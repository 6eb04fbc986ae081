"""Copies between numpy and MXNet."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import mxnet as mx
import numpy as np
from mxnet import nd

LARGE = int(os.environ.get("MXNET_CPU_PARALLEL_SIZE", 200_000))  # elements that MXNet copies with OpenMP
T = TypeVar("T")


def to_mxnet(array: np.ndarray) -> nd.NDArray:
    """An array of the same type on the current device."""
    return _apart(array.size, lambda: nd.array(array, dtype=array.dtype))


def to_numpy(array: nd.NDArray) -> np.ndarray:
    found: np.ndarray = _apart(array.size, array.asnumpy)
    return found


def _apart(size: int, copy: Callable[[], T]) -> T:
    """Make a large copy in a thread that ends.

    MXNet copies with OpenMP in the thread that calls it, and that thread then has a pool of its own. If the
    main thread has one, libgomp counts more threads than processors, and those that wait for work no longer
    spin: a training step of the workload `lstm` takes more than twice as long. A pool ends with its thread.
    """
    if size < LARGE or mx.context.current_context().device_type != "cpu":
        return copy()  # another thread would have another current device
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy).result()
