"""The shared objects that this process has loaded."""

from __future__ import annotations

import ctypes
import os
import struct
from dataclasses import dataclass
from pathlib import Path

NOTE, BUILD_ID = 4, 3


@dataclass(frozen=True)
class Library:
    """A vendor library that was loaded."""

    name: str
    version: str
    path: str = ""


def loaded_libraries(stems: dict[str, str], versions: dict[str, str] | None = None) -> list[Library]:
    """Name the loaded shared objects; {"libtorch_cpu": "PyTorch"}: start of a file name, and its owner."""
    found: dict[str, str] = {}
    for path in _mapped():
        for stem, name in stems.items():
            if Path(path).name.startswith(stem):
                found.setdefault(name, path)
    return [Library(name, (versions or {}).get(name, ""), path) for name, path in found.items()]


def with_loaded_libraries(named: list[Library], also: Path | None = None) -> list[Library]:
    """Add every other shared object, and the file that will be loaded later, to the adapter's list.

    Python's extension modules are left out: there are hundreds, and their packages' versions identify them.
    """
    paths = [path for path in _mapped() if ".cpython-" not in path and ".abi3." not in path]
    if also is not None and also.exists():
        paths.append(os.path.realpath(also))
    known = {os.path.realpath(library.path) for library in named if library.path}
    result = [Library(one.name, one.version or build_id(one.path), one.path) for one in named]
    for path in dict.fromkeys(paths):
        if os.path.realpath(path) in known:
            continue
        if Path(path).name.startswith("libcudnn.so"):
            result.append(Library("cuDNN", cudnn_version(path), path))
        else:
            result.append(Library(Path(path).name.partition(".so")[0], build_id(path), path))
    return result


def cudnn_version(path: str) -> str:
    """Return the version of a loaded cuDNN, "9.26.0", or the id of its build if it does not tell."""
    try:
        version = ctypes.CDLL(path).cudnnGetVersion
    except (OSError, AttributeError):
        return build_id(path)
    version.restype = ctypes.c_size_t
    number = int(version())
    major = 10000 if number >= 90000 else 1000  # 8907 is 8.9.7
    return f"{number // major}.{number % major // 100}.{number % 100}"


def build_id(path: str) -> str:
    """Return "build-id <hex>" as the linker wrote it into a 64-bit ELF file, or an empty string."""
    try:
        with Path(path).open("rb") as file:
            header = file.read(64)
            if header[:5] != b"\x7fELF\x02":
                return ""
            (offset,) = struct.unpack_from("<Q", header, 32)
            size, count = struct.unpack_from("<HH", header, 54)
            file.seek(offset)
            table = file.read(size * count)
            for at in range(0, len(table) - 55, size):
                kind, begin, length = struct.unpack_from("<I4xQ16xQ", table, at)
                if kind != NOTE:
                    continue
                file.seek(begin)
                if hexadecimal := _build_id_of(file.read(length)):
                    return f"build-id {hexadecimal}"
    except (OSError, struct.error):
        pass
    return ""


def _build_id_of(notes: bytes) -> str:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name = at + 12
        text = name + (name_size + 3) // 4 * 4
        if kind == BUILD_ID and notes[name : name + 4] == b"GNU\0":
            return notes[text : text + size].hex()
        at = text + (size + 3) // 4 * 4
    return ""


def _mapped() -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = ("/" + line.partition("/")[2] for line in lines if "/" in line)
    return list(dict.fromkeys(path for path in paths if ".so" in path.rpartition("/")[2]))
