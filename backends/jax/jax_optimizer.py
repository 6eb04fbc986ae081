"""The optimizers of docs/reference/protocol.md, made of optax's transformations with the same formulas.

scale_by_adam adds epsilon after the bias correction, scale_by_rms adds it after the root, and trace keeps the
learning rate outside of the velocity. Weight decay applies only to kernels; in AdamW it is decoupled, as in
optax.adamw. The learning rate multiplies the results. optax's clip_by_global_norm has no epsilon next to the
norm: clip() has.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import jax
import jax.numpy as jnp
import optax
from assay_worker import CLIP_EPSILON, Optimizer

# From our moments to the fields of optax's state.
MOMENTS = {
    "adam": {"m": "mu", "v": "nu"},
    "adamw": {"m": "mu", "v": "nu"},
    "sgd": {"momentum": "trace"},
    "rmsprop": {"square": "nu"},
}


def make_optimizer(spec: Optimizer) -> optax.GradientTransformation:
    """Build the transformation from gradients and parameters to a step's direction."""
    if spec.counts_steps:
        rule = optax.scale_by_adam(spec.beta1, spec.beta2, spec.epsilon)
    elif spec.kind == "rmsprop":
        rule = optax.scale_by_rms(spec.decay, spec.epsilon, eps_in_sqrt=False)
    elif spec.momentum:
        rule = optax.trace(spec.momentum)
    else:
        rule = optax.identity()
    parts = [("rule", rule)]
    if spec.weight_decay:
        decay = optax.add_decayed_weights(spec.weight_decay, mask=_kernels)
        parts.insert(0 if spec.decay_is_coupled else 1, ("decay", decay))
    if spec.clip_norm:
        parts.insert(0, ("clip", clip(spec.clip_norm)))
    return optax.named_chain(*parts)


def clip(limit: float) -> optax.GradientTransformation:
    """Scale all gradients by min(1, limit / (norm + epsilon)), with the L2 norm of all of them together."""

    def scale(gradients: Any, _: Any) -> Any:
        factor = jnp.minimum(1, limit / (optax.tree.norm(gradients) + CLIP_EPSILON))
        return jax.tree.map(lambda gradient: gradient * factor, gradients)

    return optax.stateless(scale)


def _kernels(parameters: Any) -> Any:
    return jax.tree.map(lambda parameter: Optimizer.decays(parameter.shape), parameters)


def field(state: Any, name: str) -> Any:
    """Return a field of the rule in the state of make_optimizer()."""
    return getattr(state["rule"], name)


def with_fields(state: Any, **fields: Any) -> Any:
    """Return the state of make_optimizer() with some fields of its rule replaced.

    An OrderedDict, as optax's update returns it: JAX compiles a step once more for a dict.
    """
    return OrderedDict({**state, "rule": state["rule"]._replace(**fields)})
