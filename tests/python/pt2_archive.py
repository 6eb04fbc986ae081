"""Archives in the form of torch.export.save, made without torch, of given nodes or of a small network."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

CODES = {"float32": 7, "int64": 5, "bool": 12, "float64": 8, "float16": 6, "int32": 4}
Entry = dict[str, Any]


def tensor_meta(shape: Sequence[int], dtype: str = "float32") -> Entry:
    strides = [int(np.prod(shape[i + 1 :])) for i in range(len(shape))]
    return {
        "dtype": CODES[dtype],
        "sizes": [{"as_int": extent} for extent in shape],
        "requires_grad": False,
        "device": {"type": "cpu", "index": None},
        "strides": [{"as_int": stride} for stride in strides],
        "storage_offset": {"as_int": 0},
        "layout": 7,
    }


def argument(value: Any) -> Entry:
    """Write an argument: a text that begins with % is the name of a value."""
    if value is None:
        return {"as_none": True}
    if isinstance(value, str) and value.startswith("%"):
        return {"as_tensor": {"name": value[1:]}}
    if isinstance(value, str):
        return {"as_string": value}
    if isinstance(value, list) and value and isinstance(value[0], str):
        return {"as_tensors": [{"name": each[1:]} for each in value]}
    if isinstance(value, list):
        return {"as_ints": value}
    if isinstance(value, float) and not np.isfinite(value):
        return {"as_float": "Infinity" if value > 0 else "-Infinity"}  # as torch writes it
    kind = {bool: "as_bool", int: "as_int", float: "as_float"}[type(value)]
    return {kind: value}


def call(target: str, out: str, **arguments: Any) -> Entry:
    """Make a node. Several results are separated by blanks."""
    outs = out.split()
    outputs = (
        [{"as_tensor": {"name": out}}]
        if len(outs) == 1
        else [{"as_tensors": [{"name": each} for each in outs]}]
    )
    return {
        "target": f"torch.ops.aten.{target}",
        "inputs": [{"name": name, "arg": argument(value), "kind": 1} for name, value in arguments.items()],
        "outputs": outputs,
        "metadata": {"nn_module_stack": f"L__self__,,M;L__self__{outs[0]},{outs[0]}_module,torch.nn.Module"},
        "is_hop_single_tensor_return": None,
        "name": outs[0],
    }


def small() -> list[Entry]:
    return [
        call("relu.default", "relu", self="%x"),
        call("linear.default", "linear", input="%relu", weight="%p_fc_weight", bias="%p_fc_bias"),
    ]


def weights_of_small() -> dict[str, np.ndarray]:
    drawn = np.random.default_rng(0)
    return {
        "fc.weight": drawn.standard_normal((3, 8)).astype(np.float32),
        "fc.bias": drawn.standard_normal(3).astype(np.float32),
    }


def document(
    nodes: list[Entry] | None = None,
    weights: dict[str, np.ndarray] | None = None,
    buffers: Sequence[str] = (),
    x: Sequence[int | None] = (None, 8),
    dtype: str = "float32",
    output: str = "",
) -> Entry:
    nodes = small() if nodes is None else nodes
    weights = weights_of_small() if weights is None else weights
    meta = tensor_meta([extent or 2 for extent in x], dtype)
    meta["sizes"] = [
        {"as_int": extent} if extent else {"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}
        for extent in x
    ]
    specs = []
    for name in weights:
        kind = "buffer" if name in buffers else "parameter"
        arg = {"name": ("b_" if kind == "buffer" else "p_") + name.replace(".", "_")}
        more = {"persistent": True} if kind == "buffer" else {}
        specs.append({kind: {"arg": arg, f"{kind}_name": name, **more}})
    specs.append({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})
    last = output or nodes[-1]["name"]
    graph = {
        "inputs": [],
        "outputs": [{"as_tensor": {"name": last}}],
        "nodes": nodes,
        "tensor_values": {"x": meta},
        "sym_int_values": {},
        "sym_bool_values": {},
    }
    signature = {
        "input_specs": specs,
        "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": last}}}}],
    }
    return {
        "graph_module": {"graph": graph, "signature": signature, "module_call_graph": []},
        "opset_version": {"aten": 10},
        "range_constraints": {},
        "schema_version": {"major": 8, "minor": 20},
        "torch_version": "2.15.0",
    }


def archive(
    nodes: list[Entry] | None = None, weights: dict[str, np.ndarray] | None = None, **more: Any
) -> bytes:
    """Return the bytes of an archive."""
    weights = weights_of_small() if weights is None else weights
    config: Entry = {}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for i, (name, array) in enumerate(weights.items()):
            made.writestr(f"m/data/weights/weight_{i}", np.ascontiguousarray(array).tobytes())
            meta = tensor_meta(array.shape, array.dtype.name)
            config[name] = {
                "path_name": f"weight_{i}",
                "is_param": True,
                "use_pickle": False,
                "tensor_meta": meta,
            }
        made.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": config}))
        made.writestr("m/data/constants/model_constants_config.json", '{"config": {}}')
        made.writestr("m/models/model.json", json.dumps(document(nodes, weights, **more)))
        made.writestr("m/byteorder", "little")
        made.writestr("m/archive_format", "pt2")
        made.writestr("m/archive_version", "0")
    return out.getvalue()
