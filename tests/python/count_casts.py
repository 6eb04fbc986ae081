"""Print how often an inference of a framework's adapter casts a parameter: BACKEND CELL_FOLDER PATH..."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def torch_casts(adapter: Any, shapes: set[tuple[int, ...]]) -> int:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten._to_copy.default and tuple(args[0].shape) in shapes:
                self.count += 1
            return function(*args, **(kwargs or {}))

    with Counter() as counter:
        adapter.step(0, 0.0, 1)
    return counter.count


def jax_casts(adapter: Any, shapes: set[tuple[int, ...]]) -> int:
    import jax

    operands = adapter._operands, adapter._states, adapter._slots[0][0]
    jaxpr = jax.make_jaxpr(adapter._infer)(*operands).jaxpr
    given = set(jaxpr.invars[: len(adapter._operands)])
    return sum(
        equation.primitive.name == "convert_element_type" and equation.invars[0] in given
        for equation in jaxpr.eqns
    )


def tensorflow_casts(adapter: Any, shapes: set[tuple[int, ...]]) -> int:
    import tensorflow as tf

    inputs, _ = adapter._slots[0]
    traced = tf.function(lambda given: adapter._network.model(given, training=False))
    graph = traced.get_concrete_function(inputs).graph
    casts = [operation for operation in graph.get_operations() if operation.type == "Cast"]
    return sum(operation.inputs[0].op.type == "ReadVariableOp" for operation in casts)


def main() -> None:
    backend, folder = sys.argv[1], Path(sys.argv[2])
    sys.path[:0] = sys.argv[3:]
    import importlib

    from assay_worker import Cell
    from assay_worker.program import read_program
    from assay_worker.tensors import read_tensors

    module = importlib.import_module(f"{backend}_adapter")
    cell = Cell(folder, json.loads((folder / "request.json").read_text()))
    program = read_program(folder / "graph.json")
    adapter_class = getattr(module, f"{backend.capitalize()}Adapter")
    adapter_class.info(cell)
    adapter = adapter_class(program, cell)
    adapter.set_state(read_tensors(folder / "parameters.safetensors"))
    fed = program.training.values["inputs"]
    inputs = np.ones(fed.shape, np.int32 if fed.dtype == "i32" else np.float32)
    adapter.stage(0, inputs, np.zeros(program.labels, np.int32))
    count = {"torch": torch_casts, "jax": jax_casts, "tensorflow": tensorflow_casts}[backend]
    print(count(adapter, {value.shape for value in program.parameters}))


if __name__ == "__main__":
    main()
