"""A process that has imported a framework and forks a worker for each cell: see preload.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent


class Preloaded:
    """A context. Standard input of the process is a pipe from here, so it never outlives this process."""

    def __init__(self, python: Path, folder: Path, socket: Path) -> None:
        """`folder` has the backend's worker.py; `socket` is made."""
        self._socket = socket
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
        self._process = subprocess.Popen(
            [python, HERE / "preload.py", socket, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | threads,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> Preloaded:
        assert self._process.stdout
        if self._process.stdout.readline() != "ready\n":
            raise RuntimeError(f"[preload] {self._socket.stem} did not become ready: see above")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._process.communicate()

    def command(self, *worker: str) -> list[str]:
        """Return the command that runs a worker and its arguments as a child; a cell folder follows it."""
        return [sys.executable, "-I", "-S", str(HERE / "enter.py"), str(self._socket), *worker]
