"""Holds an adapter to the contract of set_state(): a state without moments resets them."""

from __future__ import annotations

import numpy as np

from .adapter import TrainingAdapter
from .program import Program


def require_reset(adapter: TrainingAdapter, program: Program) -> None:
    """Raise ValueError if moments of earlier steps are left after the parameters were set.

    The exam sets moments itself, so it cannot see what survives between the first step, or the fork before,
    and the timed steps.
    """
    suffixes = tuple(f".{moment}" for moment in program.optimizer.moments)
    for name, tensor in adapter.state().items():
        if name.endswith(suffixes) and np.any(tensor):
            raise ValueError(
                f"[state] set_state() got no moments, but {name} is not zero afterwards: "
                "reset what is not named"
            )
