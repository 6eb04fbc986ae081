"""The JAX worker."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))

from assay_worker import TrainingAdapter, worker_main


def adapter() -> type[TrainingAdapter]:
    from jax_adapter import JaxAdapter

    return JaxAdapter


if __name__ == "__main__":
    worker_main(adapter)
