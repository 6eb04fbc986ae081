"""A runtime as a backend: it only infers. Plain NumPy, enough for an MLP."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "backends" / "python"))

from assay_worker import Cell, InferenceAdapter, Info, Program, Unsupported, worker_main

Tensors = dict[str, np.ndarray]

OPS = {
    "flatten": lambda x: x.reshape(len(x), -1),
    "linear": lambda x, weight, bias: x @ weight.T + bias,
    "relu": lambda x: np.maximum(x, 0),
}


class RuntimeAdapter(InferenceAdapter):
    @classmethod
    def info(cls, cell: Cell) -> Info:
        return Info("numpy-infer", np.__version__)

    def __init__(self, program: Program, cell: Cell) -> None:
        super().__init__(program, cell)
        for node in program.inference.nodes:
            if node.op not in OPS:
                raise Unsupported(f"[{node.op}] this runtime has no such op")

    def set_state(self, tensors: Tensors) -> None:
        self.weights = {name: tensor.copy() for name, tensor in tensors.items()}

    def infer(self, inputs: Tensors) -> Tensors:
        graph, values = self.program.inference, {**self.weights, **inputs}
        for node in graph.nodes:
            operands = [values[str(name)] for name in node.inputs]
            values[str(node.outputs[0])] = OPS[node.op](*operands, **node.attributes)
        return {name: values[value] for name, value in graph.outputs.items()}


if __name__ == "__main__":
    worker_main(lambda: RuntimeAdapter)
