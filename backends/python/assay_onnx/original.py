"""The user's own ONNX file as the model of a network that was imported from it: mode `original`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from assay_worker import Graph, Unsupported
from onnx import helper, numpy_helper

from .model import values_of

MODE = "original"
FREE_INITIALIZERS = 4  # the first version of ONNX's IR whose initializers need not be inputs


def original_model(folder: Path, graph: Graph, weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Read original.onnx of a cell folder, with the batch of the graph and its names of inputs and outputs.

    Tensors without weights in the file get those of the network, as original.json says.
    """
    facts = json.loads((folder / "original.json").read_text())
    model = onnx.load(str(folder / "original.onnx"), load_external_data=False)
    file = model.graph
    fill(file, facts, weights)
    bind(file, facts, graph)
    (fed,) = (value for value in file.input if value.name == facts["input"])
    element = fed.type.tensor_type.elem_type
    file.input.remove(fed)
    give_way(file)
    file.input.insert(0, values_of(graph, "inputs", "inputs"))
    file.node.insert(0, helper.make_node("Cast", ["inputs"], [theirs(facts["input"])], to=element))
    logits = graph.outputs["logits"]
    shape = np.asarray(graph.values[logits].shape, np.int64)  # the file may have (N, C, 1, 1)
    file.initializer.append(numpy_helper.from_array(shape, "output/shape"))
    made = theirs(facts["output"])
    file.node.append(helper.make_node("Reshape", [made, "output/shape"], ["output/logits"]))
    del file.output[:]
    file.output.append(values_of(graph, logits, "output/logits"))
    del file.value_info[:]  # they may have another batch
    model.ir_version = max(model.ir_version, FREE_INITIALIZERS)
    return model


OURS = ("inputs", "output/logits", "output/shape")


def theirs(name: str) -> str:
    """Another name for a value of the file that has one of ours."""
    return f"file/{name}" if name in OURS else name


def give_way(file: onnx.GraphProto) -> None:
    for node in file.node:
        node.input[:] = [theirs(name) for name in node.input]
        node.output[:] = [theirs(name) for name in node.output]
        for attribute in node.attribute:
            for inner in [attribute.g, *attribute.graphs]:
                give_way(inner)
    for held in file.initializer:
        held.name = theirs(held.name)


def fill(file: onnx.GraphProto, facts: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
    """Give the tensors without weights their values."""
    values: dict[str, Any] = {each["file"]: each["value"] for each in facts["neutral"]}
    for drawn in facts["drawn"]:
        value = weights[drawn["tensor"]]
        values[drawn["file"]] = value.T if drawn["transpose"] else value
    for name, value in values.items():
        shape = shape_in(file, name)
        array = np.asarray(value, np.float32)
        array = np.full(shape, array) if array.ndim == 0 else array.reshape(shape)
        for place in (file.initializer, file.node):
            for made in [each for each in place if name in (getattr(each, "name", ""), *outputs_of(each))]:
                place.remove(made)
        file.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))


def outputs_of(made: Any) -> list[str]:
    return list(made.output) if isinstance(made, onnx.NodeProto) else []


def shape_in(file: onnx.GraphProto, name: str) -> tuple[int, ...]:
    constants = {each.name: each for each in file.initializer}
    if name in constants:
        return tuple(constants[name].dims)
    nodes = {output: node for node in file.node for output in node.output}
    node = nodes.get(name)
    if node is None or node.op_type != "ConstantOfShape":
        raise Unsupported(f"[original] '{name}' of the user's file is not a tensor without weights")
    if (held := constants.get(node.input[0])) is None:
        maker = nodes.get(node.input[0])
        if maker is None or maker.op_type != "Constant":
            raise Unsupported(f"[original] the shape of '{name}' in the user's file is computed")
        held = maker.attribute[0].t
    return tuple(int(extent) for extent in numpy_helper.to_array(held))


def bind(file: onnx.GraphProto, facts: dict[str, Any], graph: Graph) -> None:
    """Make the other inputs of the file constants, as the import did."""
    batch = graph.values["inputs"].shape[0]
    known = {each.name for each in file.initializer} | {facts["input"]}
    for value in [each for each in file.input if each.name not in known]:
        text = facts["bound"].get(value.name, "")
        extents = [d.dim_value for d in value.type.tensor_type.shape.dim]
        shape = [batch, *(extents[1:] if all(extents[1:]) else graph.values["inputs"].shape[1:])]
        if text not in ("ones", "zeros") or not extents:
            raise Unsupported(f"[original] the input '{value.name}' was bound to {text or 'nothing'}")
        element = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        array = np.full(shape, text == "ones", element)
        file.initializer.append(numpy_helper.from_array(array, value.name))
        file.input.remove(value)
    for value in [each for each in file.input if each.name in known - {facts["input"]}]:
        file.input.remove(value)  # an initializer, which old files declare as an input, too
