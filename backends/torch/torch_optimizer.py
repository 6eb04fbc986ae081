"""The optimizers of harness/graph/program.hpp in PyTorch's own, whose forms are the same.

Adam adds epsilon after the bias correction, RMSprop after the root, SGD leaves the learning rate outside the
velocity and starts it with the first gradient, which is what a zero velocity gives; weight decay is
coupled, and for kernels alone. SparseAdam adds epsilon before the bias correction: it is given ours times
sqrt(1 - beta2^t) at each step.
"""

from __future__ import annotations

import math

from assay_worker import Optimizer, Unsupported
from torch import Tensor, nn, optim

# Our moment: PyTorch's.
MOMENTS = {
    "adam": {"m": "exp_avg", "v": "exp_avg_sq"},
    "lazy_adam": {"m": "exp_avg", "v": "exp_avg_sq"},
    "sgd": {"momentum": "momentum_buffer"},
    "rmsprop": {"square": "square_avg"},
}


def make_optimizer(spec: Optimizer, parameters: list[nn.Parameter]) -> optim.Optimizer:
    """Build the fastest form that PyTorch has; the learning rate is set before each step."""
    kernels = [parameter for parameter in parameters if spec.decay_of(parameter.shape)]
    others = [parameter for parameter in parameters if not spec.decay_of(parameter.shape)]
    groups = [
        {"params": held, "weight_decay": decay}
        for held, decay in ((kernels, spec.weight_decay), (others, 0.0))
        if held
    ]
    if spec.kind in ("adam", "lazy_adam"):
        betas = (spec.beta1, spec.beta2)
        return optim.Adam(groups, betas=betas, eps=spec.epsilon, fused=True)
    if spec.kind == "sgd":
        return optim.SGD(groups, momentum=spec.momentum, fused=True)
    return optim.RMSprop(groups, alpha=spec.decay, eps=spec.epsilon, foreach=True)


class Optimizers:
    """One optimizer for the parameters, or two where some have row-sparse gradients."""

    def __init__(self, spec: Optimizer, dense: list[nn.Parameter], sparse: list[nn.Parameter]) -> None:
        self._spec = spec
        self._all = [make_optimizer(spec, dense)]
        if not sparse:
            return
        if spec.kind != "lazy_adam":
            raise Unsupported(
                f"[{spec.kind}] PyTorch's own takes no row-sparse gradient; its SparseAdam is lazy_adam"
            )
        if spec.weight_decay:
            raise Unsupported("[lazy_adam] PyTorch's SparseAdam has no weight decay")
        self._all.append(optim.SparseAdam(sparse, betas=(spec.beta1, spec.beta2), eps=spec.epsilon))

    @property
    def fused(self) -> bool:
        return bool(self._all[0].param_groups[0].get("fused"))

    def step(self, learning_rate: float, step: int) -> None:
        """Update and clear the gradients."""
        for optimizer in self._all:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            if isinstance(optimizer, optim.SparseAdam):
                optimizer.param_groups[0]["eps"] = self._spec.epsilon * math.sqrt(1 - self._spec.beta2**step)
                for state in optimizer.state.values():
                    state["step"] = step - 1  # exact, as a number of Python's own
            optimizer.step()
        self.clear_gradients()

    def clear_gradients(self) -> None:
        for optimizer in self._all:
            optimizer.zero_grad(set_to_none=True)

    def restart(self) -> None:
        for optimizer in self._all:
            optimizer.state.clear()

    def state(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is kept for a parameter, made when there is nothing yet."""
        for optimizer in self._all:
            held = (other for group in optimizer.param_groups for other in group["params"])
            if any(parameter is other for other in held):
                return optimizer.state[parameter]
        raise ValueError("no optimizer has this parameter")
