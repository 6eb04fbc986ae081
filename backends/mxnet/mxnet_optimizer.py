"""The optimizers of docs/reference/protocol.md on MXNet's own, whose forms differ.

Adam adds epsilon before the bias correction: epsilon * sqrt(1 - beta2^t) there is epsilon here, so it is set
before each step. It forms 1 - beta in single precision, of a beta that is rounded already: with 0.999 the
second moment is 1.3e-5 too small, which scales() tells and the learning rate and epsilon make good. RMSprop
adds it below the root: epsilon^2 there is epsilon here but for gradients of the size of epsilon itself. SGD
keeps the learning rate within the velocity: momentum = -velocity * rate, and the velocity is rescaled when
the rate changes.
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
        # Lazy: where a gradient is row-sparse its rows alone are updated, moments included.
        lazy = spec.kind == "lazy_adam"
        forms = {"beta1": spec.beta1, "beta2": spec.beta2, "epsilon": spec.epsilon, "lazy_update": lazy}
        return optimizer.Adam(wd=spec.weight_decay, **forms)
    if spec.kind == "rmsprop":
        return optimizer.RMSProp(gamma1=spec.decay, epsilon=spec.epsilon**2, wd=spec.weight_decay)
    return optimizer.SGD(momentum=spec.momentum, wd=spec.weight_decay)


def moments_of(spec: Optimizer, state: State) -> dict[str, nd.NDArray]:
    """Our moments among what create_state() gave."""
    if state is None:
        return {}
    held = state if isinstance(state, tuple) else (state,)
    return dict(zip(spec.moments, held, strict=True))


def scales(spec: Optimizer) -> dict[str, float]:
    """How many times the contract's moments those of MXNet are."""
    if spec.kind not in ("adam", "lazy_adam"):
        return dict.fromkeys(spec.moments, 1.0)
    betas = {"m": spec.beta1, "v": spec.beta2}
    return {name: float(1 - np.float32(beta)) / (1 - beta) for name, beta in betas.items()}


class Amends:
    """What the learning rate and Adam's epsilon have to be so that a step is the contract's."""

    def __init__(self, spec: Optimizer) -> None:
        scale = scales(spec)
        root = math.sqrt(scale.get("v", 1.0))
        self._rate = root / scale.get("m", 1.0)
        self._epsilon, self._beta2 = spec.epsilon * root, spec.beta2

    def rate(self, learning_rate: float) -> float:
        return learning_rate * self._rate

    def epsilon(self, step: int) -> float:
        """At this step, from 1: the contract's stands after the bias correction."""
        return self._epsilon * math.sqrt(1 - self._beta2**step)
