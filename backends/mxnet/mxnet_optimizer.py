"""The optimizers of docs/reference/protocol.md, made of MXNet's own, whose formulas differ.

Adam adds epsilon before the bias correction. MXNet's epsilon is therefore set before each step, to
epsilon * sqrt(1 - beta2^t). It computes 1 - beta in single precision from a beta that is already rounded:
with 0.999 the second moment is 1.3e-5 too small. scales() returns this factor, and the learning rate and
epsilon correct for it. RMSprop adds epsilon below the root, so MXNet gets epsilon^2; this differs only for
gradients of the size of epsilon. SGD keeps the learning rate inside the velocity,
momentum = -velocity * rate, and the velocity is rescaled when the rate changes.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from assay_worker import Optimizer
from mxnet import nd, optimizer

State: TypeAlias = nd.NDArray | tuple[nd.NDArray, ...] | None


def make_optimizer(spec: Optimizer) -> optimizer.Optimizer:
    if spec.kind in ("adam", "lazy_adam"):
        # Lazy: only the rows of a row-sparse gradient are updated, moments included.
        lazy = spec.kind == "lazy_adam"
        forms = {"beta1": spec.beta1, "beta2": spec.beta2, "epsilon": spec.epsilon, "lazy_update": lazy}
        return optimizer.Adam(wd=spec.weight_decay, **forms)
    if spec.kind == "rmsprop":
        return optimizer.RMSProp(gamma1=spec.decay, epsilon=spec.epsilon**2, wd=spec.weight_decay)
    return optimizer.SGD(momentum=spec.momentum, wd=spec.weight_decay)


def moments_of(spec: Optimizer, state: State) -> dict[str, nd.NDArray]:
    """Our moments in the state that create_state() returned."""
    if state is None:
        return {}
    held = state if isinstance(state, tuple) else (state,)
    return dict(zip(spec.moments, held, strict=True))


def scales(spec: Optimizer) -> dict[str, float]:
    """MXNet's moments divided by the contract's."""
    if spec.kind not in ("adam", "lazy_adam"):
        return dict.fromkeys(spec.moments, 1.0)
    betas = {"m": spec.beta1, "v": spec.beta2}
    return {name: float(1 - np.float32(beta)) / (1 - beta) for name, beta in betas.items()}


class Amends:
    """Return the learning rate and Adam's epsilon with which a step equals the contract's."""

    def __init__(self, spec: Optimizer) -> None:
        scale = scales(spec)
        root = math.sqrt(scale.get("v", 1.0))
        self._rate = root / scale.get("m", 1.0)
        self._epsilon, self._beta2 = spec.epsilon * root, spec.beta2

    def rate(self, learning_rate: float) -> float:
        return learning_rate * self._rate

    def epsilon(self, step: int) -> float:
        """MXNet's epsilon at this step, from 1: the contract adds epsilon after the bias correction."""
        return self._epsilon * math.sqrt(1 - self._beta2**step)
