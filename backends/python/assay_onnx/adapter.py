"""A runtime that reads ONNX, as a backend: a subclass loads a model and runs it."""

from __future__ import annotations

import hashlib
from abc import abstractmethod

import numpy as np
import onnx
from assay_worker import Adapter, Cell, InferenceAdapter, Program

from .model import model_of, weights_of
from .original import MODE, original_model

Tensors = dict[str, np.ndarray]


class OnnxAdapter(InferenceAdapter):
    """Weights are constants of the model: it is loaded again if others are set, and never for equal ones."""

    def __init__(self, program: Program, cell: Cell) -> None:
        super().__init__(program, cell)
        self._weights = ""  # their digest
        self._states: Tensors = {}

    @classmethod
    def of(cls, program: Program) -> type[Adapter]:
        """The class runs single ops, too: they are models without weights."""
        return cls

    @abstractmethod
    def load(self, model: bytes) -> None:
        """Compile a model, and forget the one before. Batches that are staged stay."""

    def set_state(self, tensors: Tensors) -> None:
        weights = weights_of(self.program.inference, tensors)
        digest = hashlib.blake2b()
        for name, tensor in weights.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor).data)
        if digest.hexdigest() == self._weights:
            return
        self._states = {value.name: weights[value.name] for value in self.program.states}
        self.load(self._model(weights).SerializeToString())
        self._weights = digest.hexdigest()

    def _model(self, weights: Tensors) -> onnx.ModelProto:
        if self.cell.mode == MODE:
            return original_model(self.cell.folder, self.program.inference, weights)
        return model_of(self.program.inference, weights)

    def state(self) -> Tensors:
        """Return the states of a single op, which an inference does not change."""
        return dict(self._states)

    def inputs_of(self, inputs: np.ndarray) -> Tensors:
        return {name: np.ascontiguousarray(a) for name, a in super().inputs_of(inputs).items()}
