"""A worker's own run, block by block, and between its blocks an independent loop of the same framework.

    python compare.py BACKEND_FOLDER CELL_FOLDER ROUNDS, in the environment that the conductor gives a worker

Prints one line of JSON: seconds a step of both, block by block.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

backend, cell_folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
rounds = int(sys.argv[3])
sys.path[:0] = [str(Path(__file__).resolve().parent), str(backend.parent / "python"), str(backend)]
sys.argv = [str(backend / "worker.py"), str(cell_folder)]

from assay_worker import Cell  # noqa: E402
from assay_worker.batch import TIMED, Block, Session  # noqa: E402
from assay_worker.serve import Server  # noqa: E402


class Interleaved(Session):
    """Between two blocks of the run it lets the independent loop make as many steps."""

    def __init__(self, folder: Path, mode: str, workload: str) -> None:
        super().__init__(folder)
        batches = []
        for slot in range(self.layout.resident_batches):
            self.read_resident(slot)
            batches.append((self.inputs.copy(), self.labels.copy()))
        make = importlib.import_module(f"{backend.name}_loop").make
        self._run: Callable[[int, int], float] = make(workload, mode, batches)
        self._run(0, 20)  # it compiles here
        self._steps = 0
        self.bare: list[float] = []

    def next_block(self) -> Block:
        if self._steps:
            begin = time.monotonic_ns()
            self._run(0, self._steps)
            self.bare.append((time.monotonic_ns() - begin) * 1e-9 / self._steps)
        block = super().next_block()
        self._steps = block.steps if block.kind == TIMED else 0
        return block


request = json.loads((cell_folder / "request.json").read_text())
request["clock"].pop("steps", None)
# Short blocks: the machine changes its pace within tenths of a second.
request["clock"] |= {"kind": "steps", "blocks": rounds, "block_seconds": 0.02}
(cell_folder / "request.json").write_text(json.dumps(request))
sessions: list[Interleaved] = []


def open_session(folder: Path) -> Interleaved:
    sessions.append(Interleaved(folder, request["mode"], request["workload"]))
    return sessions[-1]


spec = importlib.util.spec_from_file_location("worker", backend / "worker.py")
assert spec
assert spec.loader
worker = importlib.util.module_from_spec(spec)
spec.loader.exec_module(worker)
server = Server(worker.adapter(), Cell(cell_folder, request), lambda event: None, open_session)
server.hello()
server.answer({"command": "compile"})
server.answer({"command": "run"})
clock = json.loads((cell_folder / "results/clock.json").read_text())
timed = [block for block in clock["blocks"] if block["kind"] == "timed"]
ours = [(block["end_ns"] - block["begin_ns"]) * 1e-9 / block["steps"] for block in timed]
print("steps: " + json.dumps({"harness": ours, "bare": sessions[0].bare}), flush=True)
os._exit(0)  # some frameworks crash when they are torn down
