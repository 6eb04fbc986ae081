"""Tensors of a worker in host memory."""

from __future__ import annotations

import numpy as np
from assay_worker.tensors import scaled


def test_a_scale_near_one_can_be_undone() -> None:
    values = np.random.default_rng(1).lognormal(sigma=8, size=10_000).astype(np.float32)
    factor = 1.0000133
    there = scaled(values, factor)
    assert there.dtype == np.float32
    assert np.count_nonzero(there != values) > 9_000
    assert np.array_equal(scaled(there, 1 / factor), values)
