"""Dependencies run one way, downwards; the two halves of the program share files and messages, not code."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from worker_under_test import ROOT

LEVELS = [
    {"graph", "io", "protocol", "measure"},
    {"batch", "plan", "data", "check", "report"},
    {"worker", "run"},
    {"exec", "gate"},
    {"backends", "cli"},
    {"main"},
]
LEVEL = {folder: level for level, folders in enumerate(LEVELS) for folder in folders}
CONDUCTOR = {"data", "check", "report", "run", "gate", "cli", "main"}
WORKER = {"worker", "exec", "backends"}
VENDOR = re.compile(r"(oneapi|dnnl|cuda|cudnn|cublas|cufft|curand|nccl|nvml|mkl|torch|ATen|tensorflow|mxnet)")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(path: Path) -> str | None:
    """What a file belongs to: a folder of harness/, "backends", or "main"."""
    if path.parts[0] == "backends":
        return "backends"
    if path.parts[0] != "harness":
        return None
    return path.parts[1] if len(path.parts) > 2 else "main"


def violations(root: Path) -> list[str]:
    found: list[str] = []
    uses: dict[str, set[str]] = {}
    for source in sorted([*(root / "harness").rglob("*.[ch]*"), *(root / "backends").rglob("*.[ch]*")]):
        if source.suffix not in (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh"):
            continue
        path = source.relative_to(root)
        here = str(folder_of(path))
        if here not in LEVEL:
            found.append(f"{path}: the folder {here} has no place in the order of dependencies")
            continue
        for bracket, name in INCLUDE.findall(source.read_text()):
            if here != "backends" and VENDOR.match(name):
                found.append(f"{path} includes the vendor's {name}")
            if bracket == "<":
                continue
            there = folder_of(Path(name))
            if there is None or there == here == "main":
                continue
            if there == "backends" == here and Path(name).parts[1] != path.parts[1]:
                found.append(f"{path} includes another backend's {name}")
            if here == there:
                continue
            uses.setdefault(here, set()).add(there)
            if (here, name) == ("io", "harness/graph/tensor.hpp"):
                uses[here].discard(there)
            elif LEVEL[there] > LEVEL[here]:
                found.append(f"{path} includes {name}, which stands above it")
            elif LEVEL[there] == LEVEL[here] == 0:
                found.append(f"{path} includes {name}: the ground floor has no neighbours")
            if (here in CONDUCTOR and there in WORKER) or (here in WORKER and there in CONDUCTOR):
                found.append(f"{path} includes {name}, of the other half of the program")
    try:
        list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        found.append(f"a cycle of folders: {' -> '.join(error.args[1])}")
    return found


def test_the_tree_keeps_the_order() -> None:
    assert violations(ROOT) == []


@pytest.mark.parametrize(
    ("path", "include", "words"),
    [
        ("harness/graph/a.hpp", '"harness/exec/executor.hpp"', "above"),
        ("harness/run/a.cpp", '"harness/worker/backend.hpp"', "other half"),
        ("harness/worker/a.cpp", '"harness/check/equivalence.hpp"', "other half"),
        ("backends/onednn/a.cpp", '"harness/report/report.hpp"', "other half"),
        ("backends/onednn/a.cpp", '"backends/reference/gemm.hpp"', "another backend"),
        ("harness/measure/a.cpp", '"harness/protocol/channel.hpp"', "ground floor"),
        ("harness/exec/a.cpp", "<oneapi/dnnl/dnnl.hpp>", "vendor"),
        ("harness/novelty/a.cpp", "<vector>", "no place"),
    ],
)
def test_each_kind_of_violation_is_seen(tmp_path: Path, path: str, include: str, words: str) -> None:
    for folder in ("harness", "backends"):
        (tmp_path / folder).mkdir()
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"#include {include}\n")
    found = violations(tmp_path)
    assert len(found) == 1, found
    assert words in found[0]


def test_a_cycle_of_folders_of_one_level_is_seen(tmp_path: Path) -> None:
    for here, there in (("data", "batch"), ("batch", "data")):
        (tmp_path / "harness" / here).mkdir(parents=True)
        (tmp_path / "harness" / here / "a.hpp").write_text(f'#include "harness/{there}/b.hpp"\n')
    (tmp_path / "backends").mkdir()
    assert any("cycle" in line for line in violations(tmp_path))
