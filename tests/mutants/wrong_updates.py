"""Mistakes in an update, in running statistics and in constants that any adapter can make."""

from __future__ import annotations

from typing import Any

import numpy as np
from mutant import OtherProgram, Rewritten, SinceTheState, Tensors, rounded, with_attributes, with_rule


class HasNoEpsilon(OtherProgram):
    """Adam's epsilon is nearly 0."""

    shows = ("first/parameter/",)

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_rule(program, epsilon=1e-15)  # 0 / 0 would be found without an exam


class HasAnotherBeta2(OtherProgram):
    """The decay of the mean of squares is 0.99."""

    shows = ("first/moment/",)

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_rule(program, beta2=0.99)


class DecouplesItsDecay(OtherProgram):
    """Weight decay is that of AdamW: outside of the gradient."""

    cell = "decay"
    shows = ("first/moment/",)

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_rule(program, kind="adamw")


class DoesNotDecay(OtherProgram):
    """Weight decay is left out."""

    cell = "decay"
    shows = ("first/moment/",)

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_rule(program, weight_decay=0.0)


class DecaysBiases(Rewritten):
    """Biases decay, too."""

    cell = "decay"
    shows = ("first/moment/",)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        found: Tensors = {}
        for name, shape in self.parameters.items():
            if len(shape) == 1:
                gradient = self.gradient(name, before, after) + self.rule.weight_decay * before[name]
                found |= self.adam(name, before, gradient, rate, step)
        return found


class KeepsTheRateOfTheThirdStep(SinceTheState):
    """From the fourth step on the learning rate is that of the third."""

    cell = "decay"
    kept_rate = 0.0

    def step(self, slot: int, rate: float, step: int) -> None:
        self.since += 1
        if self.since <= 3:
            self.kept_rate = rate
        super().step(slot, self.kept_rate, step)


class NeverCorrectsItsBias(SinceTheState):
    """Adam does not correct the bias of its moments."""

    shows = ("first/parameter/",)

    def step(self, slot: int, rate: float, step: int) -> None:
        super().step(slot, rate, step + 1_000_000)


class KeepsSquaresInBf16(Rewritten):
    """The means of squares are stored in bf16."""

    shows = ("first/moment/",)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        return {name: rounded(tensor, 7) for name, tensor in after.items() if name.endswith(".v")}


class DividesByTheLargestSquare(Rewritten):
    """AMSGrad: divides by the root of the largest mean of squares, which is not part of the state."""

    shows = ("last/", "continuation/")

    def set_state(self, tensors: Tensors) -> None:
        self.largest: Tensors = {}
        super().set_state(tensors)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        found = {}
        for name in self.parameters:
            m, v = (np.float64(after[name + moment]) for moment in (".m", ".v"))
            self.largest[name] = np.maximum(self.largest.get(name, 0), v)
            root = np.sqrt(self.largest[name] / (1 - self.rule.beta2**step)) + self.rule.epsilon
            moved = rate * m / (1 - self.rule.beta1**step) / root
            found[name] = np.float32(before[name] - moved)
        return found


class RoundsGradients(Rewritten):
    """Gradients are rounded to bf16."""

    shows = ("first/moment/",)
    bits = 7

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        found: Tensors = {}
        for name in self.parameters:
            gradient = rounded(self.gradient(name, before, after), self.bits)
            found |= self.adam(name, before, np.float64(gradient), rate, step)
        return found


class RoundsGradientsLess(RoundsGradients):
    """Gradients are rounded to tf32."""

    bits = 10


class ZeroesFaintGradients(Rewritten):
    """Elements of a gradient below a ten-thousandth of its largest are zero."""

    shows = ("first/moment/",)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        found: Tensors = {}
        for name in self.parameters:
            gradient = self.gradient(name, before, after)
            faint = np.abs(gradient) < 1e-4 * np.abs(gradient).max()
            without = self.adam(name, before, np.zeros_like(gradient), rate, step)
            found |= {each: np.where(faint, tensor, after[each]) for each, tensor in without.items()}
        return found


class DropsTheGradientOfABias(Rewritten):
    """The last bias gets no gradient."""

    shows = ("first/moment/",)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        name = [name for name, shape in self.parameters.items() if len(shape) == 1][-1]
        return self.adam(name, before, np.zeros(self.parameters[name]), rate, step)


class FreezesItsFirstLayer(Rewritten):
    """From the fourth step on the first weight and its bias do not move."""

    shows = ("last/", "continuation/")
    since = 0

    def set_state(self, tensors: Tensors) -> None:
        self.since = 0
        super().set_state(tensors)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        self.since += 1
        frozen = tuple(list(self.parameters)[:2]) if self.since > 3 else ()
        return {name: tensor for name, tensor in before.items() if name.startswith(frozen)}


class RaisesTheEpsilonOfNorms(OtherProgram):
    """The epsilon of batch norms is ten times as large."""

    cell = "norm"
    shows = ("evaluation/", "first/")

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_attributes(program, "batch_norm", lambda known: {"epsilon": 10 * known["epsilon"]})


class ReversesTheMomentumOfNorms(OtherProgram):
    """Running statistics have the momentum the other way round."""

    cell = "norm"
    shows = ("first/running/",)

    @classmethod
    def changed(cls, program: Any) -> Any:
        return with_attributes(program, "batch_norm", lambda known: {"momentum": 1 - known["momentum"]})


class KeepsRunningStatistics(Rewritten):
    """From the fourth step on running statistics are not updated."""

    cell = "norm"
    shows = ("first/running/",)

    def rewritten(self, before: Tensors, after: Tensors, rate: float, step: int) -> Tensors:
        self.steps_seen += 1
        return {name: before[name] for name in self.states if self.steps_seen > 3}
