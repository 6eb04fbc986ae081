"""The optimizers of docs/reference/protocol.md, made of MXNet's own, whose formulas differ.

Adam adds epsilon before the bias correction. MXNet's epsilon is therefore set before each step, to
epsilon * sqrt(1 - beta2^t). It computes 1 - beta in single precision from a beta that is already rounded:
with 0.999 the second moment is 1.3e-5 too small. scales() returns this factor, and the learning rate and
epsilon correct for it. RMSprop adds epsilon below the root, so MXNet gets epsilon^2; this differs only for
gradients of the size of epsilon. SGD keeps the learning rate inside the velocity,
momentum = -velocity * rate, and the velocity is rescaled when the rate changes. MXNet has the update of AdamW
without an optimizer that calls it. Gluon's clip_global_norm has another epsilon, and waits for the norm.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from assay_worker import CLIP_EPSILON, Optimizer
from mxnet import gluon, nd, optimizer

State: TypeAlias = nd.NDArray | tuple[nd.NDArray, ...] | None


class AdamW(optimizer.Optimizer):
    """MXNet's update of AdamW, called as GluonNLP's BERTAdam does: it leaves the bias correction to us."""

    def __init__(self, spec: Optimizer) -> None:
        super().__init__(wd=spec.weight_decay)
        self.epsilon = spec.epsilon  # set before each step, as that of Adam
        self._beta1, self._beta2 = spec.beta1, spec.beta2
        self._amends = Amends(spec)

    def create_state(self, index: int, weight: nd.NDArray) -> State:
        return nd.zeros_like(weight), nd.zeros_like(weight)

    def update(self, index: int, weight: nd.NDArray, grad: nd.NDArray, state: State) -> None:
        assert isinstance(state, tuple)
        self._update_count(index)
        step = self._index_update_count[index]
        correction = math.sqrt(1 - self._beta2**step) / (1 - self._beta1**step)
        nd.contrib.adamw_update(
            *(weight, grad, *state, self.rescale_grad),
            out=weight,
            eta=self._get_lr(index),  # multiplies the decay, too
            lr=self._amends.rate(correction),
            wd=self._get_wd(index),
            beta1=self._beta1,
            beta2=self._beta2,
            epsilon=self.epsilon,
        )


def make_optimizer(spec: Optimizer) -> optimizer.Optimizer:
    if spec.kind == "adamw":
        return AdamW(spec)
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
    if not spec.counts_steps:
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
        """MXNet's rate of the moments' part of a step; the decay of AdamW has the contract's rate."""
        return learning_rate * self._rate

    def epsilon(self, step: int) -> float:
        """MXNet's epsilon at this step, from 1: the contract adds epsilon after the bias correction."""
        return self._epsilon * math.sqrt(1 - self._beta2**step)


def clip(parameters: list[gluon.Parameter], limit: float, batch: int) -> None:
    """Scale all gradients by min(1, limit / (norm + epsilon)) where they lie, as sums over the batch."""
    gradients = [parameter.grad() for parameter in parameters]
    flat = [gradient.reshape((-1,)) for gradient in gradients]
    norm = nd.sqrt(nd.add_n(*[nd.dot(gradient, gradient) for gradient in flat]))
    scale = nd.minimum(limit * batch / (norm + CLIP_EPSILON * batch), 1)
    for gradient in gradients:
        gradient *= scale
