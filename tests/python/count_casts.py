"""Print how often the adapter of a framework casts a parameter: BACKEND CELL_FOLDER PATH...

Of an inference, or of the prompt and the token after it in task decode.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def torch_casts(adapter: Any, shapes: set[tuple[int, ...]], decodes: bool) -> int:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counter(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.ops.aten._to_copy.default and tuple(args[0].shape) in shapes:
                self.count += 1
            return function(*args, **(kwargs or {}))

    with Counter() as counter:
        if decodes:
            adapter.prefill(0)
            adapter.next_token(1)
        else:
            adapter.step(0, 0.0, 1)
    return counter.count


def jax_casts(adapter: Any, shapes: set[tuple[int, ...]], decodes: bool) -> int:
    import jax

    def casts(function: Any, before: Any, *after: Any) -> int:
        jaxpr = jax.make_jaxpr(function)(*before, adapter._operands, *after).jaxpr
        first = len(jax.tree.leaves(before))
        given = {*jaxpr.invars[first : first + len(adapter._operands)]}
        return sum(
            equation.primitive.name == "convert_element_type" and equation.invars[0] in given
            for equation in jaxpr.eqns
        )

    inputs = adapter._slots[0][0]
    if not decodes:
        return casts(adapter._infer, (), adapter._states, inputs)
    decoder = adapter._decoder
    caches = {value.name: decoder._kept[value.name] for value in decoder._decoding.caches}
    of_prompt = casts(decoder._prefill, (caches,), inputs)
    adapter.prefill(0)
    return of_prompt + casts(decoder.token_function, (decoder._kept,), adapter._slots[1][0])


def tensorflow_casts(adapter: Any, shapes: set[tuple[int, ...]], decodes: bool) -> int:
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
    decoding = program.decoding
    fed = [decoding.prefill, decoding.step] if decoding else [program.inference]
    for slot, graph in enumerate(fed):
        value = graph.values["inputs"]
        inputs = np.ones(value.shape, np.int32 if value.dtype == "i32" else np.float32)
        adapter.stage(slot, inputs, np.zeros(program.labels, np.int32))
    count = {"torch": torch_casts, "jax": jax_casts, "tensorflow": tensorflow_casts}[backend]
    shapes = {value.shape for value in program.parameters}
    print(count(adapter, shapes, decoding is not None))


if __name__ == "__main__":
    main()
