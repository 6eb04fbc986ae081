"""An ONNX file, checked before it is parsed, and its tensors as arrays."""

from __future__ import annotations

import hashlib
import math
import mmap
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto

from . import limits, wire
from .contents import begin_of, other_kind, size_of
from .errors import Refused

OLDEST = 6  # opset: before it, ops have operands in place of attributes
TYPES: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT: np.dtype("<f4"),
    TensorProto.DOUBLE: np.dtype("<f8"),
    TensorProto.FLOAT16: np.dtype("<f2"),
    TensorProto.INT64: np.dtype("<i8"),
    TensorProto.INT32: np.dtype("<i4"),
    TensorProto.INT16: np.dtype("<i2"),
    TensorProto.INT8: np.dtype("i1"),
    TensorProto.UINT8: np.dtype("u1"),
    TensorProto.UINT16: np.dtype("<u2"),
    TensorProto.UINT32: np.dtype("<u4"),
    TensorProto.UINT64: np.dtype("<u8"),
    TensorProto.BOOL: np.dtype("?"),
}
TYPED_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.UINT32: "uint64_data",
    TensorProto.UINT64: "uint64_data",
}


def name_of_type(element: int) -> str:
    known = element in TensorProto.DataType.values()
    return TensorProto.DataType.Name(element).lower() if known else f"type {element}"


def text_of(value: str | bytes) -> str:
    """Return a text of the file: protobuf gives bytes for one that is not UTF-8."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


@dataclass
class OnnxFile:
    path: Path
    model: onnx.ModelProto
    digest: str
    size: int
    external: dict[str, dict[str, Any]] = field(default_factory=dict)  # by location
    _bytes: int = 0  # of all external tensors

    @staticmethod
    def open(path: Path) -> OnnxFile:
        size = size_of(path, limits.FILE_BYTES)
        if size == 0:
            raise Refused(f"{path} is empty")
        try:
            with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                try:
                    wire.check(data)
                except Refused as refused:
                    raise Refused(f"{path}: {refused}") from None
                digest = hashlib.sha256(data).hexdigest()
                model = onnx.ModelProto.FromString(data[:])
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from None
        except DecodeError as error:
            raise Refused(f"{path} is not an ONNX file or is damaged: {error}") from None
        return OnnxFile(path, model, digest, size)

    def opset(self) -> int:
        """Return the version of ONNX's own ops. Refuses versions that are not known."""
        found = {each.version for each in self.model.opset_import if each.domain in ("", "ai.onnx")}
        newest = onnx.defs.onnx_opset_version()
        if len(found) != 1:
            raise Refused(
                f"{self.path} names {len(found)} versions of ONNX's ops (opset_import); one is needed"
            )
        version = int(found.pop())
        if not OLDEST <= version <= newest:
            raise Refused(
                f"{self.path} has opset {version}; {OLDEST} to {newest} are known: export it again with "
                "opset_version=20"
            )
        return version

    def array(self, tensor: onnx.TensorProto) -> np.ndarray:
        """Return the elements of a tensor. Views of the file's bytes are not copied."""
        where = f"tensor '{tensor.name}'"
        if tensor.data_type not in TYPES:
            raise Refused(f"{where} has elements of {name_of_type(tensor.data_type)}, which are not known")
        dtype = TYPES[tensor.data_type]
        shape = tuple(tensor.dims)
        count = math.prod(shape)
        largest = max(count, *shape, 0)  # an extent of 0 makes any other one possible
        if min(shape, default=0) < 0 or largest > limits.ELEMENTS or len(shape) > limits.RANK:
            raise Refused(f"{where} has the shape {shape}, which is not possible or too large")
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._external(tensor, dtype, shape)
        if tensor.HasField("raw_data"):
            if len(tensor.raw_data) != count * dtype.itemsize:
                raise Refused(
                    f"{where} has {len(tensor.raw_data)} bytes for {count} elements of {dtype.itemsize}"
                )
            return np.frombuffer(tensor.raw_data, dtype).reshape(shape)
        given = getattr(tensor, TYPED_FIELDS.get(tensor.data_type, "int32_data"))
        if len(given) != count:
            raise Refused(f"{where} has {len(given)} elements; its shape {shape} needs {count}")
        if tensor.data_type == TensorProto.FLOAT16:
            return np.array(given, np.uint16).view(np.float16).reshape(shape)
        return np.array(given).astype(dtype).reshape(shape)

    def _external(self, tensor: onnx.TensorProto, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        path = self._external_path(tensor.name, location)
        size = math.prod(shape) * dtype.itemsize
        held = size_of(path, limits.EXTERNAL_BYTES)
        try:
            offset, length = int(entries.get("offset", 0)), int(entries.get("length", size))
        except ValueError:
            raise Refused(f"tensor '{tensor.name}' has an offset or length that is not a number") from None
        if length != size or offset < 0 or offset + size > held:
            kind = other_kind(begin_of(path))
            raise Refused(
                f"tensor '{tensor.name}' needs {size} bytes from {offset} on of {location}, "
                + (f"which {kind}" if kind else f"which has {held}")
            )
        self._bytes += size
        if self._bytes > limits.EXTERNAL_BYTES:
            raise Refused(f"the external tensors have more than {limits.EXTERNAL_BYTES} bytes")
        if location not in self.external:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            self.external[location] = {"name": location, "bytes": held, "sha256": digest}
        if size == 0:
            return np.zeros(shape, dtype)
        return np.memmap(path, dtype, "r", offset, shape)

    def _external_path(self, tensor: str, location: str) -> Path:
        """Return the path of external data: a file of the model's folder, and no link on the way to it."""
        parts = PurePosixPath(location).parts
        if not parts or location.startswith("/") or ".." in parts or "\0" in location:
            raise Refused(f"tensor '{tensor}' is in the file '{location}', outside of the model's folder")
        path = self.path.parent
        for part in parts:
            path = path / part
            if path.is_symlink():
                raise Refused(
                    f"tensor '{tensor}' is in the file '{location}', by a symbolic link: it is not read"
                )
        if not path.exists():
            raise Refused(f"tensor '{tensor}' is in the file '{location}', which is not next to {self.path}")
        return path
