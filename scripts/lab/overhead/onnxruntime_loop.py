"""A loop as the documentation of ONNX Runtime has it: a session, and an IOBinding for each batch."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

import numpy as np
import onnxruntime
from clock import Batch, Loop, Runtime, main


class Session(Loop):
    def __init__(self, model: Path, batches: list[Batch]) -> None:
        self.session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        (given,) = self.session.get_inputs()
        self.bindings = cycle([self.binding(given.name, inputs) for inputs, _ in batches])

    def binding(self, name: str, inputs: np.ndarray) -> onnxruntime.IOBinding:
        found = self.session.io_binding()
        found.bind_ortvalue_input(
            name, onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(inputs))
        )
        for output in self.session.get_outputs():
            found.bind_output(output.name, "cpu")
        return found

    def run(self, steps: int) -> float:
        run = self.session.run_with_iobinding
        for binding in islice(self.bindings, steps):
            run(binding)
        return float(binding.copy_outputs_to_cpu()[0].sum())

    def parameters(self) -> int:
        return int(self.session.get_modelmeta().custom_metadata_map["parameters"])

    def settings(self) -> dict[str, str]:
        options = self.session.get_session_options()
        return {
            "providers": " ".join(self.session.get_providers()),
            "threads": str(options.intra_op_num_threads),
            "graph_optimization": options.graph_optimization_level.name,
        }


if __name__ == "__main__":
    main(Runtime(onnxruntime.__version__, "enable-all", Session))
