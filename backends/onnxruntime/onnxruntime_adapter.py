"""ONNX Runtime as its users have it for one model at a time: a session with bound inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnxruntime
from assay_onnx import OnnxAdapter
from assay_worker import Cell, Info, Program

Tensors = dict[str, np.ndarray]
Level = onnxruntime.GraphOptimizationLevel

LEVELS = {
    "enable-all": Level.ORT_ENABLE_ALL,
    "enable-extended": Level.ORT_ENABLE_EXTENDED,
    "enable-basic": Level.ORT_ENABLE_BASIC,
    "disable-all": Level.ORT_DISABLE_ALL,
    "original": Level.ORT_ENABLE_ALL,
}
SPINNING = "session.intra_op.allow_spinning"


@dataclass(frozen=True)
class Bound:
    """A batch where the session reads it, and the memory into which it writes the outputs."""

    inputs: dict[str, onnxruntime.OrtValue]
    outputs: dict[str, onnxruntime.OrtValue]
    binding: onnxruntime.IOBinding


class OnnxRuntimeAdapter(OnnxAdapter):
    """Each slot has its own binding, so a step is one call and moves no batch."""

    def __init__(self, program: Program, cell: Cell) -> None:
        super().__init__(program, cell)
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = cell.threads
        self._options.inter_op_num_threads = 1  # nodes run one after the other, as by default
        self._options.graph_optimization_level = LEVELS[cell.mode]
        self._slots: dict[int, Bound] = {}
        self._last: Bound | None = None

    @classmethod
    def info(cls, cell: Cell) -> Info:
        return Info("onnxruntime", onnxruntime.__version__)

    def load(self, model: bytes) -> None:
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(model, self._options, providers=providers)
        held = {slot: bound.inputs for slot, bound in self._slots.items()}
        self._slots = {slot: self._bound(inputs) for slot, inputs in held.items()}

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        arrays = self.inputs_of(inputs)
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(a) for name, a in arrays.items()}
        self._slots[slot] = self._bound(values)

    def _bound(self, inputs: dict[str, onnxruntime.OrtValue]) -> Bound:
        binding = self._session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        outputs = {}
        for output in self._session.get_outputs():
            element = np.int32 if output.type == "tensor(int32)" else np.float32
            outputs[output.name] = onnxruntime.OrtValue.ortvalue_from_shape_and_type(output.shape, element)
            binding.bind_ortvalue_output(output.name, outputs[output.name])
        return Bound(inputs, outputs, binding)

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        self._last = self._slots[slot]
        self._session.run_with_iobinding(self._last.binding)

    def results(self) -> Tensors:
        found = self._last.outputs if self._last else {}
        return {name.removeprefix("output/"): np.array(value.numpy()) for name, value in found.items()}

    def settings(self) -> dict[str, str]:
        options = self._session.get_session_options()
        return {
            "providers": " ".join(self._session.get_providers()),
            "threads": str(options.intra_op_num_threads),
            "graph_optimization": options.graph_optimization_level.name,
            "spinning": options.get_session_config_entry(SPINNING)
            if self._has(options, SPINNING)
            else "default",
        }

    @staticmethod
    def _has(options: onnxruntime.SessionOptions, name: str) -> bool:
        try:
            options.get_session_config_entry(name)
        except RuntimeError:
            return False
        return True
