"""Which shared objects this process has loaded."""

from __future__ import annotations

from pathlib import Path

from .adapter import Library


def loaded_libraries(stems: dict[str, str], versions: dict[str, str] | None = None) -> list[Library]:
    """Name the loaded shared objects; {"libtorch_cpu": "PyTorch"}: how a file begins, whose it is."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.partition("/")[2]
        if ".so" not in path:
            continue
        file = path.rpartition("/")[2]
        for stem, name in stems.items():
            if file.startswith(stem):
                found.setdefault(name, "/" + path)
    return [Library(name, (versions or {}).get(name, ""), path) for name, path in found.items()]
