"""OpenVINO on a CPU as its users have it for one request at a time: a compiled model and an infer request."""

from __future__ import annotations

import numpy as np
import openvino
from assay_onnx import OnnxAdapter
from assay_worker import Cell, Info, Program
from openvino import properties
from openvino.properties import hint

Tensors = dict[str, np.ndarray]

# By the precision of a cell. Without it OpenVINO chooses by the processor: bf16, where that is faster.
PRECISIONS = {"fp32": openvino.Type.f32, "bf16": openvino.Type.bf16}
OBSERVED = (
    properties.inference_num_threads,
    properties.num_streams,
    hint.inference_precision,
    hint.execution_mode,
    hint.performance_mode,
    hint.enable_cpu_pinning,
)


class OpenvinoAdapter(OnnxAdapter):
    """A step gives the request the memory of a batch, and waits for its end."""

    def __init__(self, program: Program, cell: Cell) -> None:
        super().__init__(program, cell)
        self._tensors: dict[int, dict[str, openvino.Tensor]] = {}

    @classmethod
    def info(cls, cell: Cell) -> Info:
        return Info("openvino", openvino.__version__)

    def load(self, model: bytes) -> None:
        core = openvino.Core()
        asked = {properties.inference_num_threads: self.cell.threads}
        if self.cell.mode != "default":
            asked |= {
                hint.performance_mode: hint.PerformanceMode.LATENCY,
                properties.num_streams: 1,
                hint.inference_precision: PRECISIONS[self.cell.precision],
            }
        self._compiled = core.compile_model(core.read_model(model, b""), "CPU", asked)
        self._request = self._compiled.create_infer_request()

    def stage(self, slot: int, inputs: np.ndarray, labels: np.ndarray) -> None:
        arrays = self.inputs_of(inputs)
        self._tensors[slot] = {name: openvino.Tensor(a, shared_memory=True) for name, a in arrays.items()}

    def step(self, slot: int, learning_rate: float, step: int) -> None:
        for name, tensor in self._tensors[slot].items():
            self._request.set_tensor(name, tensor)
        self._request.infer()

    def results(self) -> Tensors:
        return {
            name: np.array(self._request.get_tensor(f"output/{name}").data)
            for name in self.program.inference.outputs
        }

    def settings(self) -> dict[str, str]:
        own = self._compiled.get_property(hint.inference_precision)
        return {"computes_in": self._shown(own).replace("f32", "fp32")} | {
            str(name()).lower(): self._shown(self._compiled.get_property(name)) for name in OBSERVED
        }

    @staticmethod
    def _shown(value: object) -> str:
        if isinstance(value, openvino.Type):
            return str(value.get_type_name())
        return str(getattr(value, "name", value))
