"""Dependencies run one way, downwards; conductor and worker share files and messages, not code.

The build enforces what a library may include: each folder has an include root of its own, and a header of a
library that is not linked is not found. This test holds what the build cannot know: which links are allowed.
"""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from worker_under_test import ROOT

SHARED = {"core", "graph", "protocol", "exam", "batch", "machine", "report", "launch", "workloads"}
CONDUCTOR = [
    f"conductor/{room}"
    for room in (
        "backends",
        "store",
        "data",
        "config",
        "process",
        "check",
        "fork",
        "run",
        "print",
        "compare",
        "docs",
        "cli",
    )
]
WORKER = {"worker", "engine", "backends"}
# What each folder may include, apart from itself.
MAY_INCLUDE: dict[str, set[str]] = {
    "core": set(),
    "graph": {"core"},
    "protocol": {"core"},
    "exam": {"core", "graph", "protocol"},
    "batch": {"core", "protocol", "exam"},
    "machine": {"core"},
    "report": {"core", "machine", "protocol"},
    "launch": {"core"},
    "workloads": {"core", "graph"},
    "worker": {"core", "graph", "protocol", "exam", "batch"},
    "engine": {"core", "graph", "worker"},
    "backends": {"core", "graph", "worker", "engine"},
    **{room: SHARED | set(CONDUCTOR[:i]) for i, room in enumerate(CONDUCTOR)},
}
VENDOR = re.compile(
    r"(mpi\b|oneapi|dnnl|cuda|cudnn|cublas|cufft|curand|nccl|nvml|mkl|torch|ATen|tensorflow|mxnet)"
)
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
OWN = ("harness/", "workloads/", "backends/", "tests/")
SUFFIXES = (".h", ".hpp", ".c", ".cpp", ".cu", ".cuh", ".inc")


def folder_of(path: Path) -> str:
    """The library of a file: its folder in harness/ or harness/conductor/, "backends" or "workloads"."""
    if path.parts[0] != "harness":
        return path.parts[0]
    return "/".join(path.parts[1:3]) if path.parts[1] == "conductor" else path.parts[1]


def violations(root: Path) -> list[str]:
    found: list[str] = []
    uses: dict[str, set[str]] = {}
    sources = [s for top in ("harness", "workloads", "backends") for s in sorted((root / top).rglob("*"))]
    for source in sources:
        if source.suffix not in SUFFIXES:
            continue
        path = source.relative_to(root)
        here = folder_of(path)
        if here not in MAY_INCLUDE:
            found.append(f"{path}: the folder {here} has no place in the order of dependencies")
            continue
        for bracket, name in INCLUDE.findall(source.read_text()):
            if here != "backends" and VENDOR.match(name):
                found.append(f"{path} includes the vendor's {name}")
            if name == "mpi.h" and path.name != "mpi_module.cpp":
                found.append(f"{path} includes {name}, so a worker would need MPI to start")
            if not name.startswith(OWN):
                if bracket == '"' and not (source.parent / name).exists():
                    found.append(
                        f"{path} includes {name}, which is neither a path from the root nor a neighbor"
                    )
                continue
            if bracket == "<":
                found.append(f"{path} includes our own {name} in angle brackets")
            there = folder_of(Path(name))
            if there == "backends" == here and Path(name).parts[1] not in (path.parts[1], "collectives"):
                found.append(f"{path} includes another backend's {name}")
            if here == there:
                continue
            uses.setdefault(here, set()).add(there)
            if there in MAY_INCLUDE[here]:
                continue
            if (here in CONDUCTOR and there in WORKER) or (here in WORKER and there in CONDUCTOR):
                found.append(f"{path} includes {name}, of the other half of the program")
            else:
                found.append(f"{path} includes {name}, which is not below it")
    try:
        list(TopologicalSorter(uses).static_order())
    except CycleError as error:
        found.append(f"a cycle of folders: {' -> '.join(error.args[1])}")
    return found


def test_the_tree_keeps_the_order() -> None:
    assert violations(ROOT) == []


def test_the_allowed_includes_have_no_cycle() -> None:
    list(TopologicalSorter(MAY_INCLUDE).static_order())


@pytest.mark.parametrize(
    ("path", "include", "words"),
    [
        ("harness/graph/a.hpp", '"harness/engine/executor.hpp"', "not below"),
        ("harness/core/io/a.hpp", '"harness/graph/graph.hpp"', "not below"),
        ("harness/graph/a.hpp", '"workloads/workload.hpp"', "not below"),
        ("workloads/a.cpp", '"backends/onednn/layout.hpp"', "not below"),
        ("workloads/a.cpp", '"harness/conductor/config/cell.hpp"', "not below"),
        ("harness/conductor/run/a.cpp", '"harness/worker/backend.hpp"', "other half"),
        ("harness/conductor/data/a.cpp", '"harness/conductor/run/run.hpp"', "not below"),
        ("harness/worker/a.cpp", '"harness/conductor/check/equivalence.hpp"', "other half"),
        ("backends/onednn/a.cpp", '"harness/report/report.hpp"', "not below"),
        ("backends/onednn/a.cpp", '"harness/conductor/run/run.hpp"', "other half"),
        ("backends/onednn/a.cpp", '"backends/reference/gemm.hpp"', "another backend"),
        ("harness/machine/a.cpp", '"harness/protocol/channel.hpp"', "not below"),
        ("harness/machine/a.cpp", "<harness/core/clock.hpp>", "angle brackets"),
        ("harness/machine/a.cpp", '"clock.hpp"', "neither"),
        ("harness/engine/a.cpp", "<oneapi/dnnl/dnnl.hpp>", "vendor"),
        ("backends/onednn/a.cpp", "<mpi.h>", "need MPI"),
        ("backends/collectives/a.cpp", '"backends/onednn/layout.hpp"', "another backend"),
        ("harness/novelty/a.cpp", "<vector>", "no place"),
    ],
)
def test_each_kind_of_violation_is_seen(tmp_path: Path, path: str, include: str, words: str) -> None:
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text(f"#include {include}\n")
    found = violations(tmp_path)
    assert len(found) == 1, found
    assert words in found[0]


def test_a_cycle_of_folders_is_seen(tmp_path: Path) -> None:
    for here, there in (("graph", "protocol"), ("protocol", "graph")):
        (tmp_path / "harness" / here).mkdir(parents=True)
        (tmp_path / "harness" / here / "a.hpp").write_text(f'#include "harness/{there}/b.hpp"\n')
    assert any("cycle" in line for line in violations(tmp_path))
