"""Workers that start at once: a process imports a framework, and forks for each cell.

    preload.py SOCKET BACKEND_FOLDER      answers requests until its standard input ends

The conductor starts enter.py as the worker, which passes its descriptors, environment, folder and processors
to this process. A child of this process then runs the worker, and enter.py ends as the child ends.
So an interpreter is started and a framework is imported once, and each cell still has a process of its own,
with the adapter's modules that are next to its worker.

The child is not below enter.py, so the conductor neither confines nor samples it.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

from enter import PASSED

LONGEST_REQUEST = 1 << 17


def preload(folder: Path) -> None:
    """Import what the worker in `folder` imports, but keep none of the modules in `folder`."""
    path = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="preload-") as cell_folder:
        (Path(cell_folder) / "request.json").write_text("{}")
        sys.argv = [str(folder / "worker.py"), cell_folder]
        worker = runpy.run_path(sys.argv[0], run_name="preloaded")
        if "adapter" in worker:
            worker["adapter"]()
    if "torch" in sys.modules:
        import_module("torch._inductor.compile_fx")  # otherwise each child imports it when it compiles
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file and Path(file).resolve().parent == folder.resolve():
            del sys.modules[name]
    sys.path[:] = path
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads != 1:
        raise RuntimeError(
            f"[preload] {folder.name} starts {threads - 1} threads on import: it cannot be forked"
        )


def read_variables_again() -> None:
    """JAX read the variables of the compile cache when it was imported, without a cache."""
    if jax := sys.modules.get("jax"):
        if folder := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
            jax.config.update("jax_compilation_cache_dir", folder)
        for name, kind in (("COMPILE_TIME_SECS", float), ("ENTRY_SIZE_BYTES", int)):
            if value := os.environ.get(f"JAX_PERSISTENT_CACHE_MIN_{name}"):
                jax.config.update(f"jax_persistent_cache_min_{name.lower()}", kind(value))


def become_worker(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run the worker in this process. A worker ends its process: this returns only after a failure."""
    os.setpgid(0, 0)
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 100) for descriptor in descriptors]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(PASSED, 4096)
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # the import looked for it without the worker's TMPDIR
    read_variables_again()
    os.chdir(request["arguments"][-1])  # the cell folder, where the conductor starts a worker
    os.sched_setaffinity(0, request["processors"])
    sys.argv = request["arguments"]
    runpy.run_path(sys.argv[0], run_name="__main__")


class Server:
    """Forks a child for each request, and reports how the child ended."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen()
        self._selector.register(self._listener, selectors.EVENT_READ, ("request", 0))
        self._selector.register(sys.stdin, selectors.EVENT_READ, ("stop", 0))
        self._clients: dict[int, socket.socket] = {}  # by the process id of the child

    def run(self) -> None:
        """Serve until standard input ends; then kill the children."""
        while True:
            for key, _ in self._selector.select():
                event, child = key.data
                if event == "stop":
                    for remaining in self._clients:
                        _kill(remaining)
                    return
                if event == "request":
                    self._start(self._listener.accept()[0])
                elif event == "ended":
                    self._end(child, key.fd)
                elif child in self._clients:  # the conductor killed enter.py
                    self._selector.unregister(key.fileobj)
                    _kill(child)

    def _start(self, client: socket.socket) -> None:
        text, descriptors, _, _ = socket.recv_fds(client, LONGEST_REQUEST, PASSED)
        if len(descriptors) != PASSED:  # enter.py was killed
            client.close()
            return
        child = os.fork()
        if child == 0:
            try:
                become_worker(json.loads(text), descriptors)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)
        self._clients[child] = client
        self._selector.register(client, selectors.EVENT_READ, ("left", child))
        self._selector.register(os.pidfd_open(child), selectors.EVENT_READ, ("ended", child))

    def _end(self, child: int, descriptor: int) -> None:
        _, status = os.waitpid(child, 0)
        self._selector.unregister(descriptor)
        os.close(descriptor)
        client = self._clients.pop(child)
        with contextlib.suppress(KeyError):
            self._selector.unregister(client)
        with contextlib.suppress(OSError), client:
            client.send(str(status).encode())


def _kill(child: int) -> None:
    for kill in (os.killpg, os.kill):  # it may not lead its group yet
        with contextlib.suppress(ProcessLookupError):
            kill(child, signal.SIGKILL)


def main() -> None:
    path, folder = sys.argv[1:]
    del sys.path[0]  # a worker does not see the modules next to this file
    preload(Path(folder))
    gc.collect()
    gc.freeze()  # so that a collection in a child copies no pages
    server = Server(path)
    print("ready", flush=True)
    server.run()
    os._exit(0)  # frameworks take long to unload


if __name__ == "__main__":
    main()
