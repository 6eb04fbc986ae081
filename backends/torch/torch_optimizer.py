"""The optimizers of docs/reference/protocol.md, made of PyTorch's own, which have the same formulas.

Adam adds epsilon after the bias correction, RMSprop adds it after the root. SGD keeps the learning rate
outside of the velocity and starts the velocity with the first gradient, as a zero velocity would. Weight
decay is coupled, except in AdamW, and applies only to kernels. SparseAdam adds epsilon before the bias
correction: it gets our epsilon times sqrt(1 - beta2^t) at each step. clip_grad_norm_ has the contract's
formula.
"""

from __future__ import annotations

import math

import torch
from assay_worker import Optimizer, Unsupported
from torch import Tensor, nn, optim

# From our moments to PyTorch's.
MOMENTS = {
    "adam": {"m": "exp_avg", "v": "exp_avg_sq"},
    "adamw": {"m": "exp_avg", "v": "exp_avg_sq"},
    "lazy_adam": {"m": "exp_avg", "v": "exp_avg_sq"},
    "sgd": {"momentum": "momentum_buffer"},
    "rmsprop": {"square": "square_avg"},
}


def make_optimizer(
    spec: Optimizer, parameters: list[nn.Parameter], rate: float | Tensor = 0.0
) -> optim.Optimizer:
    """Build PyTorch's fastest variant; if the rate is a tensor, one that can be captured."""
    captured = isinstance(rate, Tensor)
    kernels = [parameter for parameter in parameters if spec.decay_of(parameter.shape)]
    others = [parameter for parameter in parameters if not spec.decay_of(parameter.shape)]
    groups = [
        {"params": held, "weight_decay": decay}
        for held, decay in ((kernels, spec.weight_decay), (others, 0.0))
        if held
    ]
    if spec.counts_steps:
        kind = optim.AdamW if spec.kind == "adamw" else optim.Adam
        betas = (spec.beta1, spec.beta2)
        return kind(groups, rate, betas=betas, eps=spec.epsilon, fused=True, capturable=captured)
    if spec.kind == "sgd":
        return optim.SGD(groups, rate, momentum=spec.momentum, fused=True)
    forms = {"alpha": spec.decay, "eps": spec.epsilon, "capturable": captured}
    return optim.RMSprop(groups, rate, foreach=True, **forms)


class Optimizers:
    """One optimizer for the parameters, or two if some have row-sparse gradients.

    If the step is captured, the learning rate is on the device, where the graph reads it.
    """

    def __init__(
        self,
        spec: Optimizer,
        dense: list[nn.Parameter],
        sparse: list[nn.Parameter],
        captured_on: torch.device | None = None,
    ) -> None:
        self._spec = spec
        self._clipped = dense if spec.clip_norm else []
        if self._clipped and sparse:
            raise Unsupported("[clip_norm] PyTorch's clip_grad_norm_ takes no row-sparse gradient")
        self._rate = None if captured_on is None else torch.zeros((), device=captured_on)
        self._all = [make_optimizer(spec, dense, 0.0 if self._rate is None else self._rate)]
        if not sparse:
            return
        self._all.append(optim.SparseAdam(sparse, betas=(spec.beta1, spec.beta2), eps=spec.epsilon))

    @property
    def on_device(self) -> bool:
        """Whether PyTorch keeps its count of steps on the parameters' device."""
        return self.fused or self._rate is not None

    @property
    def fused(self) -> bool:
        return bool(self._all[0].param_groups[0].get("fused"))

    def prepare(self, learning_rate: float, step: int) -> None:
        """Set the values that the next update reads."""
        if self._rate is not None:
            self._rate.fill_(learning_rate)
            return
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            if isinstance(optimizer, optim.SparseAdam):
                optimizer.param_groups[0]["eps"] = self._spec.epsilon * math.sqrt(1 - self._spec.beta2**step)
                for state in optimizer.state.values():
                    state["step"] = step - 1  # exact, as a Python number

    def update(self) -> None:
        """Clip the gradients, update the parameters and clear the gradients."""
        if self._clipped:
            nn.utils.clip_grad_norm_(self._clipped, self._spec.clip_norm)
        for optimizer in self._all:
            optimizer.step()
        self.clear_gradients()

    def clear_gradients(self) -> None:
        for optimizer in self._all:
            optimizer.zero_grad(set_to_none=True)

    def state(self, parameter: Tensor) -> dict[str, Tensor]:
        """The state of a parameter, created if it does not exist yet."""
        for optimizer in self._all:
            held = (other for group in optimizer.param_groups for other in group["params"])
            if any(parameter is other for other in held):
                state: dict[str, Tensor] = optimizer.state[parameter]
                return state
        raise ValueError("no optimizer has this parameter")
