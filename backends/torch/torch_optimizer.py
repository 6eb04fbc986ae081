"""The optimizers of harness/graph/program.hpp in PyTorch's own, whose forms are the same.

Adam adds epsilon after the bias correction, RMSprop after the root, SGD leaves the learning rate outside the
velocity and starts it with the first gradient, which is what a zero velocity gives; weight decay is coupled.
"""

from __future__ import annotations

from assay_worker import Optimizer
from torch import nn, optim

# Our moment: PyTorch's.
MOMENTS = {
    "adam": {"m": "exp_avg", "v": "exp_avg_sq"},
    "sgd": {"momentum": "momentum_buffer"},
    "rmsprop": {"square": "square_avg"},
}


def make_optimizer(spec: Optimizer, parameters: list[nn.Parameter]) -> optim.Optimizer:
    """Build the fastest form that PyTorch has; the learning rate is set before each step."""
    decay = spec.weight_decay
    if spec.kind == "adam":
        betas = (spec.beta1, spec.beta2)
        return optim.Adam(parameters, betas=betas, eps=spec.epsilon, weight_decay=decay, fused=True)
    if spec.kind == "sgd":
        return optim.SGD(parameters, momentum=spec.momentum, weight_decay=decay, fused=True)
    return optim.RMSprop(parameters, alpha=spec.decay, eps=spec.epsilon, weight_decay=decay, foreach=True)
