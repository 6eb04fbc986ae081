"""An Assay and a loop that measure what a plan says, for the tests of scripts/lab/verify-overhead."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from program import hurried

CELL = "torch/eager/train/mlp/resident"

# One plan for both programs that verify-overhead starts: what they measure, each time in turn.
# A block claims two steps of the plan's time, and takes longer than that.
FAKE_ASSAY = """#!{python}
import json, mmap, os, signal, sys, time
from pathlib import Path
here = Path(__file__).parent
if sys.argv[1] == "env":
    print((here / "machine.json").read_text())
    sys.exit(0)
plan = json.loads((here / "plan.json").read_text())
log = here / "log"
number = log.read_text().splitlines().count("adapter") if log.exists() else 0
log.open("a").write("adapter\\n")
(here / "adapter-arguments").write_text(" ".join(sys.argv[1:]))
cell = Path(os.environ["TMPDIR"]) / "a_cell"
cell.mkdir()
peak = Path(os.environ["TMPDIR"]) / "op_gemm"  # the first run of a machine leaves this, too
peak.mkdir()
(peak / "graph.json").write_text("{{}}")
values = [{{"role": "input", "shape": [32, 1, 28, 28]}}, {{"role": "parameter", "shape": [10, 5]}},
          {{"role": "parameter", "shape": plan.get("bias", [10])}}, {{"role": "state", "shape": [7]}}]
(cell / "graph.json").write_text(json.dumps({{"inference": {{"values": values}}}}))
(cell / "inputs.npy").write_bytes(bytes(4096))
seconds = plan["adapter"]
step = round(1e9 * seconds[number % len(seconds)])
worker = os.fork()
if worker == 0:
    time.sleep(plan.get("compiles", 0))
    (here / "adapter-compiled").write_text(str(time.monotonic_ns()))
    signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGCONT}})
    with (cell / "inputs.npy").open("rb") as file:
        held = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    signal.sigwait({{signal.SIGCONT}})  # verify-overhead stops it here, and then it warms up
    continued = []
    signal.signal(signal.SIGCONT, lambda *_: continued.append(True))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {{signal.SIGCONT}})
    time.sleep(float(sys.argv[sys.argv.index("--warm-up-seconds") + 1]))
    turns = int(sys.argv[sys.argv.index("--blocks") + 1]) // 6 - 1
    begins = []
    while len(continued) <= turns:  # it ends in a turn after these
        begins.append(time.monotonic_ns())
        time.sleep(plan["sleep"])
    (cell / "begins").write_text(json.dumps(begins))
    os._exit(0)
os.waitpid(worker, 0)
begins = json.loads((cell / "begins").read_text())
kinds = ["warm_up"] + len(begins) * ["timed"]
ends = [9] + [begin + 2 * step for begin in begins]
blocks = {{"kind": kinds, "begin_ns": [0, *begins], "steps": 2, "end_ns": ends}}
fork = {{"blocks": blocks, "settings": {{"threads": "2"}}, "log_tail": "it broke"}}
cell = {{"id": "a/cell", "status": plan.get("status", "ok"), "reason": "", "backend_version": "3"}}
cell["forks"] = [fork]
report = {{"run": {{"version": "1", "commit": "c", "dirty": False}}, "cells": [cell]}}
Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps(report))
"""
FAKE_LOOP = """#!{python}
import json, os, signal, sys, time
from pathlib import Path
here = Path(__file__).parents[2]
plan = json.loads((here / "plan.json").read_text())
(here / "log").open("a").write("loop\\n")
(here / "loop-environment").write_text(json.dumps(dict(os.environ)))
(here / "loop-arguments").write_text(" ".join(sys.argv[1:]))
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(True))
if plan.get("loop_fails"):
    sys.exit("no such network")
step = round(1e9 * plan["loop"])
print("loop: compiled", flush=True)
time.sleep(plan.get("warm_up", 0))
(here / "loop-warm").write_text(str(time.monotonic_ns()))
print("loop: warm", plan["loop"], flush=True)
begins = []
while not asked:
    begins.append(time.monotonic_ns())
    time.sleep(plan["sleep"])
blocks = [[begin, begin + 2 * step, 2] for begin in begins]
found = {{"blocks": blocks, "parameters": 60, "batch": 32, "shape": [1, 28, 28]}}
print("loop: " + json.dumps(found | {{"version": "3", "settings": {{"threads": "4"}}}}))
"""


class Fake:
    """An Assay and a PyTorch that measure what a plan says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out, self.markdown = folder / "out.json", folder / "out.md"
        self._write("assay", FAKE_ASSAY)
        self._write("torch/bin/python", FAKE_LOOP)
        self.machine("processor")
        self.plan()

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)

    def machine(self, model: str) -> None:
        facts = {"cpu": {"model": model, "allowed": 2}, "os": "", "kernel": ""}
        (self.folder / "machine.json").write_text(json.dumps(facts))

    def plan(self, **changed: Any) -> None:
        plan = {"adapter": [1e-3], "loop": 1e-3, "sleep": 0.005} | changed
        (self.folder / "plan.json").write_text(json.dumps(plan))

    def verify(self, *options: object) -> subprocess.CompletedProcess[str]:
        command = hurried("verify-overhead", "assay_overhead.pair", "WARM_UP_SECONDS", 0.05)
        command += ["--assay", self.folder / "assay"]
        command += [
            "--environments",
            self.folder,
            "--only",
            "torch",
            "--workloads",
            "mlp",
            "--tasks",
            "train",
        ]
        command += ["--modes", "eager", "--without-conductor", "--out", self.out, "--markdown", self.markdown]
        command += ["--turns", 2, "--turn-seconds", 0.12, "--accept-disturbed"]
        return subprocess.run(
            [str(word) for word in (*command, *options)],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def cell(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out.read_text())["cells"][CELL]
        return found

    def ratios(self) -> list[list[float]]:
        """Return the ratios of each pair."""
        return [[turn["ratio"] for turn in pair["turns"]] for pair in self.cell()["pairs"]]

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text().splitlines()
