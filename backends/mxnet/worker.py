"""The MXNet worker."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from assay_worker import TrainingAdapter, worker_main


def restore_aliases() -> None:
    """Restore numpy's former names of Python's types: MXNet 1.9 reads them on import."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for alias in (bool, int, float, complex, object, str):
            if not hasattr(np, alias.__name__):
                setattr(np, alias.__name__, alias)


def adapter() -> type[TrainingAdapter]:
    restore_aliases()
    from mxnet_adapter import MxnetAdapter

    return MxnetAdapter


if __name__ == "__main__":
    worker_main(adapter)
