"""A file of torch.export.save: a zip with a JSON document and raw bytes. Nothing in it is unpickled."""

from __future__ import annotations

import json
import math
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from . import limits
from .errors import Refused

MAJOR = 8  # of the schema
# torch's numbers for element types (torch/_export/serde/schema.py, ScalarType).
TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("i1"),
    3: np.dtype("<i2"),
    4: np.dtype("<i4"),
    5: np.dtype("<i8"),
    6: np.dtype("<f2"),
    7: np.dtype("<f4"),
    8: np.dtype("<f8"),
    12: np.dtype("?"),
}
END = b"PK\x05\x06"  # begins the record at the end of a zip
END_SIZE = 22
COMMENT = 65_535


def check_directory(path: Path) -> None:
    """Refuse a zip whose list of files is large, before it is read."""
    size = path.stat().st_size
    if size > limits.EXTERNAL_BYTES:
        raise Refused(f"{path} has {size} bytes; the limit is {limits.EXTERNAL_BYTES}")
    with path.open("rb") as file:
        file.seek(max(0, size - END_SIZE - COMMENT))
        tail = file.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) - at < END_SIZE:
        raise Refused(f"{path} is not a .pt2 or is truncated: it does not end as a zip")
    entries, length = struct.unpack("<HI", tail[at + 10 : at + 16])
    if length == 0xFFFFFFFF and at >= 76:  # zip64: its own record is before
        length = (
            struct.unpack("<Q", tail[at - 36 : at - 28])[0] if tail[at - 76 : at - 72] == b"PK\x06\x06" else 0
        )
    if length > limits.DIRECTORY_BYTES or entries > limits.ENTRIES:
        raise Refused(
            f"{path} lists {entries} files in {length} bytes; the limit is {limits.DIRECTORY_BYTES}"
        )


class Pt2File:
    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            check_directory(path)
            self._zip = zipfile.ZipFile(path)
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError, struct.error) as error:
            raise Refused(f"{path} is not a .pt2 or is damaged: {error}") from None
        self._entries = self._listed()
        names = [name for name in self._entries if name.startswith("models/") and name.endswith(".json")]
        if len(names) != 1:
            raise Refused(f"{path} has {len(names)} programs (models/*.json), not one: use torch.export.save")
        self.program = names[0].removeprefix("models/").removesuffix(".json")
        if self._entries.get("byteorder") and self._read("byteorder", 16) != b"little":
            raise Refused(f"{path} was written on a big-endian machine: its numbers are not read")
        self.document = self.json(names[0])
        version = self.document.get("schema_version")
        if not isinstance(version, dict) or version.get("major") != MAJOR:
            raise Refused(
                f"{path} has version {shown(version)} of torch.export's schema; {MAJOR} is read: save it "
                "with a PyTorch that writes it, such as 2.15"
            )
        self.schema = f"{MAJOR}.{version.get('minor')}"

    def _listed(self) -> dict[str, zipfile.ZipInfo]:
        """Return the files by their paths below the one folder of the archive."""
        infos = self._zip.infolist()
        if not infos or len(infos) > limits.ENTRIES:
            raise Refused(f"{self.path} has {len(infos)} files in it")
        size, total = self.path.stat().st_size, 0
        root = infos[0].filename.split("/")[0]
        found: dict[str, zipfile.ZipInfo] = {}
        for info in infos:
            total += info.file_size
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise Refused(f"{self.path} has the compressed file '{info.filename}'; torch writes none")
            folder, _, name = info.filename.partition("/")
            if folder != root or name in found:
                raise Refused(
                    f"{self.path} has the file '{info.filename}' twice, or outside of its folder '{root}'"
                )
            found[name] = info
        if total > size:
            raise Refused(f"{self.path} has {size} bytes, and files of {total} in it: they overlap")
        return found

    def _read(self, name: str, limit: int) -> bytes:
        info = self._entries.get(name)
        if info is None:
            raise Refused(f"{self.path} has no {name}: write it with torch.export.save")
        if info.file_size > limit:
            raise Refused(f"{self.path}: {name} has {info.file_size} bytes; the limit is {limit}")
        try:
            return self._zip.read(info)
        except (
            zipfile.BadZipFile,
            OSError,
            EOFError,
            RuntimeError,
            NotImplementedError,
            ValueError,
        ) as error:
            raise Refused(f"{self.path}: {name} cannot be read: {error}") from None

    def json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self._read(name, limits.JSON_BYTES))
        except (ValueError, RecursionError) as error:
            raise Refused(f"{self.path}: {name} is not JSON: {type(error).__name__}") from None
        if not isinstance(found, dict):
            raise Refused(f"{self.path}: {name} is not a JSON object")
        return found

    def tensors(self, kind: str) -> dict[str, np.ndarray]:
        """Return the tensors of a kind, weights or constants, by their names in the module."""
        name = f"data/{kind}/{self.program}_{kind}_config.json"
        if name not in self._entries:
            return {}
        config = self.json(name).get("config", {})
        if not isinstance(config, dict):
            raise Refused(f"{self.path}: {name} has no list of tensors by name")
        stored: dict[str, bytes] = {}
        found = {}
        for tensor, entry in config.items():
            try:
                if entry["use_pickle"]:
                    raise Refused(
                        f"{self.path}: the tensor '{tensor}' is pickled, and nothing is unpickled: a "
                        "pickle runs code. Save a module of plain tensors"
                    )
                path = str(entry["path_name"])
                if path not in stored:
                    stored[path] = self._read(f"data/{kind}/{path}", limits.FILE_BYTES)
                found[tensor] = self._array(tensor, entry["tensor_meta"], stored[path])
            except (KeyError, TypeError, AttributeError, OverflowError) as error:
                raise Refused(
                    f"{self.path}: the tensor '{tensor}' is not described as torch does it ({error!r})"
                ) from None
        return found

    def _array(self, name: str, meta: dict[str, Any], data: bytes) -> np.ndarray:
        if meta["dtype"] not in TYPES:
            raise Refused(f"{self.path}: the tensor '{name}' has elements of torch's type {meta['dtype']}")
        dtype = TYPES[meta["dtype"]]
        shape, strides = (tuple(whole(each) for each in meta[key]) for key in ("sizes", "strides"))
        offset = whole(meta["storage_offset"])
        if len(shape) != len(strides) or len(shape) > limits.RANK or min((*shape, *strides, offset)) < 0:
            raise Refused(f"{self.path}: the tensor '{name}' has the shape {shape} and strides {strides}")
        if max(*shape, *strides, offset, 0) > limits.ELEMENTS:
            raise Refused(f"{self.path}: the tensor '{name}' has the shape {shape}, which is too large")
        if math.prod(shape) == 0:
            return np.zeros(shape, dtype)
        last = offset + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
        held = len(data) // dtype.itemsize
        if last >= held or math.prod(shape) > max(held, 1):
            raise Refused(
                f"{self.path}: the tensor '{name}' of the shape {shape} has {held} elements in the file"
            )
        flat = np.frombuffer(data, dtype, held)[offset:]
        steps = [stride * dtype.itemsize for stride in strides]
        return np.lib.stride_tricks.as_strided(flat, shape, steps, writeable=False)


def whole(value: dict[str, Any]) -> int:
    number = value["as_int"]
    if not isinstance(number, int) or isinstance(number, bool):
        raise TypeError(f"{number!r} is not a whole number")
    return number


def shown(version: object) -> str:
    if isinstance(version, dict) and all(isinstance(version.get(key), int) for key in ("major", "minor")):
        return f"{version['major']}.{version['minor']}"
    return "unknown"
