"""A process that has imported a framework and forks a worker for each cell: see preload.py."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent


class Preloaded:
    """A context. Processes that enter it with the same socket share one preloaded process.

    Its standard input is a named pipe that each of them holds open, so it ends with the last of them.
    """

    def __init__(self, python: Path, folder: Path, socket: Path) -> None:
        """`folder` has the backend's worker.py; `socket` is made, with a pipe next to it."""
        self._python, self._folder, self._socket = python, folder, socket
        self._pipe = socket.with_suffix(".users")
        self._held = -1

    def __enter__(self) -> Preloaded:
        with self._socket.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                self._held = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # there is no pipe yet, or nobody reads it any more
                self._start()
        return self

    def _start(self) -> None:
        self._socket.unlink(missing_ok=True)
        self._pipe.unlink(missing_ok=True)
        os.mkfifo(self._pipe)
        read = os.open(self._pipe, os.O_RDONLY | os.O_NONBLOCK)
        self._held = os.open(self._pipe, os.O_WRONLY)
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
        process = subprocess.Popen(
            [self._python, HERE / "preload.py", self._socket, self._folder],
            stdin=read, stdout=subprocess.PIPE, text=True, env=os.environ | threads,
            start_new_session=True,
        )  # fmt: skip
        os.close(read)
        assert process.stdout
        if process.stdout.readline() != "ready\n":
            raise RuntimeError(f"[preload] {self._socket.stem} did not become ready: see above")

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        os.close(self._held)

    def command(self, *worker: str) -> list[str]:
        """Return the command that runs a worker and its arguments as a child; a cell folder follows it."""
        return [sys.executable, "-I", "-S", str(HERE / "enter.py"), str(self._socket), *worker]
