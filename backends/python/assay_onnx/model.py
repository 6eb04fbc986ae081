"""The inference graph of a program as an ONNX model."""

from __future__ import annotations

import numpy as np
import onnx
from assay_worker import Graph
from assay_worker.program import DTYPES
from onnx import TensorProto, helper, numpy_helper

from .ops import Writer

OPSET = 20  # what all runtimes read
IR_VERSION = 10
ELEMENTS = {"f32": TensorProto.FLOAT, "i32": TensorProto.INT32}


def values_of(graph: Graph, name: str, type_of: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        type_of, ELEMENTS[graph.values[name].dtype], graph.values[name].shape
    )


def model_of(graph: Graph, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Write a graph with these parameters and states as constants.

    Inputs have the names of the graph's, and an output is "output/<name>". Raises Unsupported for an op, or a
    form of one, that is not written.
    """
    writer = Writer(graph, weights)
    for node in graph.nodes:
        writer.write(node)
    for output, value in graph.outputs.items():
        writer.node("Identity", value, out=f"output/{output}")
    read = {name for node in writer.nodes for name in node.input}
    constants = {**weights, **writer.constants}
    model_graph = helper.make_graph(
        writer.nodes,
        graph.name,
        [values_of(graph, value.name, value.name) for value in graph.with_role("input")],
        [values_of(graph, value, f"output/{output}") for output, value in graph.outputs.items()],
        [
            numpy_helper.from_array(np.ascontiguousarray(constants[name]), name)
            for name in constants
            if name in read
        ],
    )
    return helper.make_model(
        model_graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="assay",
        ir_version=IR_VERSION,
    )


def weights_of(graph: Graph, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return each parameter and state: those that are not given have their initial constants."""
    return {
        value.name: np.asarray(
            given.get(value.name, np.full(value.shape, value.initializer == "ones")), DTYPES[value.dtype]
        )
        for role in ("parameter", "state")
        for value in graph.with_role(role)
    }
