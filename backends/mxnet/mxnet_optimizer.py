"""The optimizers of harness/graph/program.hpp on MXNet's own, whose forms differ.

Adam adds epsilon before the bias correction: epsilon * sqrt(1 - beta2^t) there is epsilon here, so it is
set before each step. RMSprop adds it below the root: epsilon^2 there is epsilon here but for gradients of the
size of epsilon itself. SGD keeps the learning rate within the velocity: momentum = -velocity * rate, and the
velocity is rescaled when the rate changes.
"""

from __future__ import annotations

import math

from assay_worker import Optimizer, Unsupported
from mxnet import nd, optimizer

State = nd.NDArray | tuple[nd.NDArray, ...] | None


def make_optimizer(spec: Optimizer) -> optimizer.Optimizer:
    if spec.kind == "lazy_adam" and spec.weight_decay:
        raise Unsupported("[lazy_adam] MXNet's weight decay would touch the other rows, too")
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


def epsilon_at(spec: Optimizer, step: int) -> float:
    """What Adam's epsilon has to be at this step, from 1, so that it is spec.epsilon after the correction."""
    return spec.epsilon * math.sqrt(1 - spec.beta2**step)
