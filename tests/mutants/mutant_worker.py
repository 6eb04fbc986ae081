"""A backend's own worker with one mutant in front of its adapter.

    mutant_worker.py BACKEND_FOLDER NAME CELL_FOLDER

BACKEND_FOLDER has a worker.py, or is that of onednn in a build (onednn_worker.py). NAME is that of a mutant
of mistakes.py, cheats.py, rank_mistakes.py or faults.py; "unchanged" and "of_ranks" are right.
ASSAY_PROCESSES: a folder in which each worker leaves a file that is named by its process.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def all_mutants() -> dict[str, type]:
    from faults import FAULTS, RANK_FAULTS
    from mistakes import MUTANTS
    from mutant import Mutant
    from rank_mistakes import DROPOUT_MISTAKES, NORM_MISTAKES, RANK_CHEATS, RANK_MISTAKES, RankMistake

    right = {"unchanged": Mutant, "of_ranks": RankMistake}
    of_ranks = RANK_FAULTS | RANK_MISTAKES | NORM_MISTAKES | DROPOUT_MISTAKES | RANK_CHEATS
    return right | MUTANTS | FAULTS | of_ranks


def imported(worker: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("worker", worker)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutated(kind: type, base: type) -> type:
    """Return an adapter's class with the mutant in front of it."""
    return type(f"{kind.__name__}Adapter", (kind, base), {"kind": kind})


def adapter_of(worker: Path, kind: type) -> Callable[[], type]:
    """Return the function that imports the framework and returns the adapter's class."""

    def adapter() -> type:
        from faults import Fault
        from rank_adapters import SPOILT
        from rank_mistakes import RankMistake

        if issubclass(kind, Fault):
            kind.before_import()
        module = imported(worker)
        if issubclass(kind, RankMistake):
            return mutated(kind, SPOILT[worker.parent.name](module))
        return mutated(kind, module.NumpyAdapter if hasattr(module, "NumpyAdapter") else module.adapter())

    return adapter


def kind_for(name: str, cell: Path) -> type:
    from mutant import Mutant

    kind = all_mutants()[name]
    request = json.loads((cell / "request.json").read_text())
    rank = str(request.get("rank", 0))
    return kind if os.environ.get("ASSAY_FAULT_RANK", rank) == rank else Mutant


def command_of(folder: Path, name: str) -> list[str]:
    """Return the command of the backend.json of this mutant."""
    interpreter = "${interpreter}" if (folder / "worker.py").exists() else sys.executable
    return [interpreter, str(HERE / "mutant_worker.py"), str(folder), name]


def register(tree: Path, backend: str, folder: Path, name: str, **changes: object) -> Path:
    """Write the backend.json of a backend with this mutant; return its folder.

    `changes`: other fields of it.
    """
    declared = json.loads((folder / "backend.json").read_text()) | {"command": command_of(folder, name)}
    if not (folder / "worker.py").exists():
        declared["requires"] = []  # a file next to it
    made = tree / backend
    made.mkdir(parents=True)
    (made / "backend.json").write_text(json.dumps(declared | changes))
    return made


def main() -> None:
    if "ASSAY_PROCESSES" in os.environ:
        (Path(os.environ["ASSAY_PROCESSES"]) / str(os.getpid())).touch()
    folder, name = Path(sys.argv[1]), sys.argv[2]
    del sys.argv[1:3]
    sys.path[:0] = [str(HERE), str(ROOT / "backends/python"), str(folder)]
    kind = kind_for(name, Path(sys.argv[1]))
    if not (folder / "worker.py").exists():
        from onednn_worker import serve

        sys.exit(serve(folder, kind, name))
    from assay_worker import worker_main

    worker_main(adapter_of(folder / "worker.py", kind))


if __name__ == "__main__":
    main()
