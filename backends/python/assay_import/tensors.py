"""The tensors of a network: who trains them, what draws them, and the file that holds them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import limits
from .errors import Refused
from .graph import Constant, Graph
from .limits import USABLE
from .values import unusable_at

# For each op, the role and the initializer of its operands, by their places.
PLACES: dict[str, dict[int, tuple[str, str]]] = {
    "batch_norm": {
        1: ("parameter", "ones"),
        2: ("parameter", "zeros"),
        3: ("state", "zeros"),
        4: ("state", "ones"),
    },
    "convolution": {1: ("parameter", "he_normal"), 2: ("parameter", "zeros")},
    "embedding": {1: ("parameter", "normal:0.02")},
    "layer_norm": {1: ("parameter", "ones"), 2: ("parameter", "zeros")},
    "linear": {1: ("parameter", "glorot_uniform"), 2: ("parameter", "zeros")},
    "lstm": {
        1: ("parameter", "uniform_fan_in"),
        2: ("parameter", "uniform_fan_in"),
        3: ("parameter", "zeros"),
    },
    "matmul": {0: ("parameter", "glorot_uniform"), 1: ("parameter", "glorot_uniform")},
    "prelu": {1: ("parameter", "uniform:0.25")},
    "rms_norm": {1: ("parameter", "ones")},
}
ELSEWHERE = {"multiply": "ones", "divide": "ones"}  # of parameters in other places; of the others normal:0.02


@dataclass(frozen=True)
class Tensor:
    name: str
    constant: Constant
    role: str
    initializer: str

    @property
    def is_written(self) -> bool:
        """Return whether the values are known. What ConstantOfShape makes is drawn."""
        return not (self.constant.is_filled and self.role != "constant")


def tensors_of(graph: Graph, train_constants: bool) -> list[Tensor]:
    """Return the constants in the order in which the nodes read them."""
    found: dict[str, Tensor] = {}
    for reader in graph.order():
        node = graph.nodes[reader]
        for place, name in enumerate(node.inputs):
            if name is None or name not in graph.constants:
                continue
            held = graph.constants[name]
            role, initializer = PLACES.get(node.op, {}).get(
                place, ("constant", ELSEWHERE.get(node.op, "normal:0.02"))
            )
            if role != "state" and held.role:
                role = held.role
            elif role == "constant" and train_constants and held.original and held.array.ndim > 0:
                role = "parameter"
            known = found.get(name)
            if known is not None and (known.role == role or role == "constant"):
                continue
            if known is not None and "state" in (known.role, role):
                raise Refused(f"the tensor '{name}' is a running statistic and a parameter")
            found[name] = Tensor(name, held, role, initializer if role != "constant" else "zeros")
    return list(found.values())


def check_values(tensors: list[Tensor]) -> None:
    """Refuse what a file of weights may not have, and what is too large to write out."""
    for tensor in tensors:
        array = tensor.constant.array
        if array.dtype != np.float32:
            raise Refused(
                f"the tensor '{tensor.name}' has elements of {array.dtype}; weights of Assay are float32"
            )
        if not tensor.is_written or array.size == 0:
            continue
        if tensor.constant.is_filled and array.size > limits.FOLDED_ELEMENTS:
            raise Refused(f"the constant '{tensor.name}' has {array.size} equal elements; that is too large")
        if (at := unusable_at(array)) is not None:
            kind = "constant" if tensor.role == "constant" else "tensor"
            held, place = tensor.constant, list(at[::-1] if tensor.constant.turned else at)
            raise Refused(
                f"the {kind} '{held.original or tensor.name}' has at {place} the value {array[at]}; {USABLE}"
            )


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    if a.shape == b.shape and a.dtype == b.dtype and a.size and not any(a.strides + b.strides):
        one, other = a.reshape(-1)[:1], b.reshape(-1)[:1]  # filled: no element is written out
        return bool(np.array_equal(one, other, equal_nan=a.dtype.kind == "f"))
    is_one = (
        a.__array_interface__["data"] == b.__array_interface__["data"]
        and a.shape == b.shape
        and a.strides == b.strides
        and a.dtype == b.dtype
    )
    return is_one or (
        a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    )


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Write a safetensors file, one tensor after the other."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in tensors.items():
        size = array.size * 4
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array, "<f4").data if array.size else b"")
