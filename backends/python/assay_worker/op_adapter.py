"""The contract of a Python backend for a single op: operands in, results and their gradients out."""

from __future__ import annotations

import numpy as np

from .adapter import Adapter
from .program import Program
from .tensors import Tensors


class OpAdapter(Adapter):
    """What a network has and a single op has not; a subclass stages, steps and gives results()."""

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        return cls

    def loss(self) -> float:
        raise NotImplementedError("a single op has no loss")

    def evaluate(self, inputs: np.ndarray) -> np.ndarray:
        raise NotImplementedError("a single op has no logits")

    def gradients(self, inputs: np.ndarray, labels: np.ndarray) -> Tensors:
        raise NotImplementedError("a single op gives its gradients with its results")


def boxed_numbers(tagged: np.ndarray) -> list[int | float]:
    """Box what op from_list is fed: (N, 2) of a tag, 0 for whole and 1 for real, and a value."""
    return [float(value) if tag else int(value) for tag, value in tagged.tolist()]
