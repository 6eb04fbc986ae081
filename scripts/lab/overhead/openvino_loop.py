"""The loop of OpenVINO's benchmark_app itself: -api sync -hint none -nstreams 1 -infer_precision f32."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import onnx
import openvino
from clock import Batch, Loop, Runtime, main
from openvino.tools.benchmark.benchmark import Benchmark


class BenchmarkApp(Loop):
    """Like the program, it infers one batch again and again, and does not give the request others."""

    def __init__(self, model: Path, batches: list[Batch]) -> None:
        self.model, self.batch = model, len(batches[0][0])
        self.benchmark = Benchmark("CPU", number_iterations=1, api_type="sync", inference_only=True)
        threads = len(os.sched_getaffinity(0))
        asked = {"NUM_STREAMS": "1", "INFERENCE_NUM_THREADS": str(threads), "INFERENCE_PRECISION_HINT": "f32"}
        self.benchmark.set_config({"CPU": asked})
        self.compiled = self.benchmark.core.compile_model(self.benchmark.read_model(str(model)), "CPU")
        (self.request,) = self.benchmark.create_infer_requests(self.compiled)
        self.request.set_input_tensor(openvino.Tensor(np.ascontiguousarray(batches[0][0])))

    def get_next_batch_size(self) -> int:
        """Answer as the queue of the program's data does."""
        return self.batch

    def run(self, steps: int) -> float:
        self.benchmark.niter = steps
        self.benchmark.sync_inference(self.request, self)
        return float(self.request.get_output_tensor(0).data.sum())

    def parameters(self) -> int:
        properties = onnx.load(str(self.model)).metadata_props
        return int(next(one.value for one in properties if one.key == "parameters"))

    def settings(self) -> dict[str, str]:
        names = ("INFERENCE_NUM_THREADS", "NUM_STREAMS", "ENABLE_CPU_PINNING")
        return {name.lower(): str(self.compiled.get_property(name)) for name in names}


if __name__ == "__main__":
    main(Runtime(openvino.__version__, "latency", BenchmarkApp))
