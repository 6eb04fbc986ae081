"""The modules of our packages import each other without a cycle, TYPE_CHECKING and functions included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from worker_under_test import ROOT

PACKAGE = ROOT / "backends/python/assay_worker"
Name = tuple[str, ...]  # ("assay_worker", "loop"); the package's own __init__.py is ("assay_worker",)


def modules_of(package: Path) -> dict[Name, Path]:
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[parts[:-1] if path.stem == "__init__" else parts] = path
    return found


def imported_names(source: str, within: Name) -> Iterator[Name]:
    """Every name that a module of the package `within` imports, wherever the import is written."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = within[: len(within) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield from ((*base, alias.name) for alias in node.names)


def import_graph(package: Path) -> dict[Name, set[Name]]:
    """Each module with the modules of the same package that it imports."""
    modules = modules_of(package)
    graph: dict[Name, set[Name]] = {}
    for module, path in modules.items():
        within = module if path.stem == "__init__" else module[:-1]
        names = imported_names(path.read_text(), within)
        # The longest known beginning: ("assay_worker", "loop", "Loop") is in ("assay_worker", "loop").
        prefixes = ([name[:length] for length in range(len(name), 0, -1)] for name in names)
        graph[module] = {
            found for tried in prefixes if (found := next(filter(modules.__contains__, tried), None))
        }
    return graph


def cycle_of(package: Path) -> list[str]:
    """Names of the modules of one import cycle; none: []."""
    try:
        list(TopologicalSorter(import_graph(package)).static_order())
    except CycleError as error:
        return [".".join(module) for module in error.args[1]]
    return []


def test_assay_worker_has_no_import_cycle() -> None:
    graph = import_graph(PACKAGE)
    assert ("assay_worker", "trainer") in graph[("assay_worker", "serve")]  # from . import
    assert ("assay_worker", "loop") in graph[("assay_worker", "adapter")]  # from .loop import
    assert cycle_of(PACKAGE) == []


def test_assay_import_has_no_import_cycle() -> None:
    graph = import_graph(ROOT / "backends/python/assay_import")
    assert ("assay_import", "onnx_ops") in graph[("assay_import", "onnx_reader")]
    assert cycle_of(ROOT / "backends/python/assay_import") == []


def plant(folder: Path, planted: str) -> Path:
    """Make a package in which `first` imports `second`, and `second` is the planted source."""
    package = folder / "planted"
    package.mkdir()
    (package / "__init__.py").write_text("from .first import first\n")
    (package / "first.py").write_text("from .second import second\n")
    (package / "second.py").write_text(planted)
    return package


@pytest.mark.parametrize(
    "planted",
    [
        "from .first import first\n",
        "from . import first\n",
        "import planted.first\n",
        "from planted import first\n",
        "from planted.first import first\n",
        "if TYPE_CHECKING:\n    from .first import first\n",
        "def late():\n    from .first import first\n",
        "from . import something\n",
        "import planted\n",
    ],
)
def test_each_form_of_import_closes_a_planted_cycle(tmp_path: Path, planted: str) -> None:
    cycle = cycle_of(plant(tmp_path, planted))
    assert {"planted.first", "planted.second"} <= set(cycle)


@pytest.mark.parametrize("planted", ["import json\n", "import first\n", "from json import first\n"])
def test_imports_from_elsewhere_are_not_a_cycle(tmp_path: Path, planted: str) -> None:
    assert cycle_of(plant(tmp_path, planted)) == []


def test_a_subpackage_is_a_part_of_the_graph(tmp_path: Path) -> None:
    package = plant(tmp_path, "from .inner.deep import deep\n")
    (package / "inner").mkdir()
    (package / "inner" / "__init__.py").write_text("")
    (package / "inner" / "deep.py").write_text("")
    assert cycle_of(package) == []
    (package / "inner" / "deep.py").write_text("from ..first import first\n")
    assert "planted.inner.deep" in cycle_of(package)
