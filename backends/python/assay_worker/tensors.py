"""safetensors files: 8 bytes of header length, a JSON header, the bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}

Tensors = dict[str, np.ndarray]


def read_tensors(path: Path) -> Tensors:
    """Read a file. Raises ValueError if its header does not match its contents."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        raise ValueError(f"{path}: header of {size} bytes in a file of {len(data)}")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        if entry["dtype"] not in DTYPES or end > len(data):
            raise ValueError(f"{path}: tensor {name!r} of type {entry['dtype']} ends at {end} of {len(data)}")
        tensors[name] = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def same_tensors(a: Tensors, b: Tensors) -> bool:
    return set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)


def copied(tensors: Tensors) -> Tensors:
    return {name: np.array(tensor) for name, tensor in tensors.items()}


def scaled(values: np.ndarray, factor: float) -> np.ndarray:
    """Return values * factor in their own type, rounded once."""
    return (values.astype(np.float64) * factor).astype(values.dtype)


def write_tensors(path: Path, tensors: Tensors) -> None:
    header, offset = {}, 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": NAMES[tensor.dtype.newbyteorder("<")],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).data)
