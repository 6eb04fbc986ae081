"""The optimizers of docs/reference/protocol.md, made of optax's transformations with the same formulas.

scale_by_adam adds epsilon after the bias correction, scale_by_rms adds it after the root, and trace keeps the
learning rate outside of the velocity. Weight decay is coupled and applies only to kernels. The learning rate
multiplies the results.
"""

from __future__ import annotations

from typing import Any

import jax
import optax
from assay_worker import Optimizer

# From our moments to the fields of optax's state.
MOMENTS = {"adam": {"m": "mu", "v": "nu"}, "sgd": {"momentum": "trace"}, "rmsprop": {"square": "nu"}}


def make_optimizer(spec: Optimizer) -> optax.GradientTransformation:
    """Build the transformation from gradients and parameters to a step's direction. Its state is a pair."""
    if spec.kind == "adam":
        rule = optax.scale_by_adam(spec.beta1, spec.beta2, spec.epsilon)
    elif spec.kind == "rmsprop":
        rule = optax.scale_by_rms(spec.decay, spec.epsilon, eps_in_sqrt=False)
    elif spec.momentum:
        rule = optax.trace(spec.momentum)
    else:
        rule = optax.identity()
    decay = optax.add_decayed_weights(spec.weight_decay, mask=_kernels)
    return optax.chain(decay if spec.weight_decay else optax.identity(), rule)


def _kernels(parameters: Any) -> Any:
    return jax.tree.map(lambda parameter: Optimizer.decays(parameter.shape), parameters)


def with_fields(state: Any, **fields: Any) -> Any:
    """Return the state of make_optimizer() with some fields of its rule replaced."""
    decay, rule = state
    return decay, rule._replace(**fields) if fields else rule
