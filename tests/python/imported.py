"""Shared by the tests of the importer: small ONNX models, and networks that are computed next to them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import network_interpreter
import numpy as np
import pytest
from assay_import.importing import Import, import_file
from assay_import.options import Options
from framework import ENVIRONMENTS

Array = np.ndarray
ROUNDINGS = 2e-5  # of the largest element; what f32 and f64 may differ by in these small networks


def packages_with_onnx() -> Path | None:
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in ("import", "onnx", "onnxruntime", "openvino"):
        folder = ENVIRONMENTS / name / "lib" / version / "site-packages"
        if (folder / "onnx").is_dir():
            return folder
    return None


def onnx_or_skip() -> Any:
    """Return the package onnx of an environment; skip the module without one."""
    folder = packages_with_onnx()
    if folder is None:
        pytest.skip("no environment has onnx: assay setup import", allow_module_level=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return pytest.importorskip("onnx")


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Make a node. Names are separated by blanks; an operand that is absent is '-'."""
    import onnx

    names = ["" if name == "-" else name for name in inputs.split()]
    return onnx.helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


def model(
    nodes: Sequence[Any],
    x: Sequence[int | str | None] = ("N", 8),
    out: str = "y",
    opset: int = 20,
    dtype: str = "f32",
    **constants: Any,
) -> Any:
    """Make a model with the input x, one output and these constants."""
    import onnx

    kinds = {"f32": onnx.TensorProto.FLOAT, "i64": onnx.TensorProto.INT64, "f64": onnx.TensorProto.DOUBLE}
    graph = onnx.helper.make_graph(
        list(nodes),
        "test",
        [onnx.helper.make_tensor_value_info("x", kinds[dtype], list(x))],
        [onnx.helper.make_empty_tensor_value_info(name) for name in out.split()],
        [onnx.numpy_helper.from_array(as_array(value), name) for name, value in constants.items()],
    )
    imports = [onnx.helper.make_opsetid("", opset)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=8, producer_name="test")


def as_array(value: Any) -> Array:
    array = np.array(value)
    return array.astype(np.float32) if array.dtype == np.float64 else array


def random(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


def saved(folder: Path, made: Any, name: str = "model.onnx") -> Path:
    path = folder / name
    path.write_bytes(made.SerializeToString())
    return path


def imported(folder: Path, made: Any, **options: Any) -> Import:
    return import_file(saved(folder, made), Options(**options))


def ops_of(found: Import) -> list[str]:
    assert found.network is not None, found.gaps
    return [each["op"] for each in found.network.document["nodes"]]


def missing_of(found: Import) -> list[str]:
    return [gap.feature for gap in found.gaps]


def rules_of(found: Import) -> set[str]:
    return {each["rule"] for each in found.provenance["lifts"]}


def inputs_for(found: Import, batch: int = 3) -> Array:
    assert found.network is not None
    given = found.network.document["input"]
    shape = (batch, *given["shape"][1:])
    if given["dtype"] == "i32":
        return np.random.default_rng(1).integers(0, given["below"], shape)
    return random(*shape, seed=1)


def difference(found: Import, path: Path, output: str | None = None, batch: int = 3) -> float:
    """Return by how much the network and onnx.reference differ, as a share of the largest element."""
    return distance(found, path, {"x": inputs_for(found, batch)}, output)


def distance(found: Import, path: Path, fed: dict[str, Array], output: str | None = None) -> float:
    """Return the same for these inputs of the file."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    assert found.network is not None, found.gaps
    loaded = onnx.load(path)
    output = output or found.provenance["original"]["output"]
    if output not in {value.name for value in loaded.graph.output}:
        loaded.graph.output.append(onnx.helper.make_empty_tensor_value_info(output))
    wanted = ReferenceEvaluator(loaded).run([output], fed)[0]
    got = network_interpreter.compute(found.network.document, found.network.arrays(), fed["x"])
    if got.size != wanted.size:
        return float("inf")
    return float(np.abs(got.reshape(-1) - wanted.reshape(-1)).max() / np.abs(wanted).max())


def agrees(folder: Path, made: Any, **options: Any) -> Import:
    """Import a model and see that the network computes what onnx.reference does."""
    found = imported(folder, made, **options)
    assert found.network is not None, found.gaps
    assert difference(found, folder / "model.onnx") < ROUNDINGS
    return found
