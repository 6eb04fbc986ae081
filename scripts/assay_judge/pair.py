"""One pair: a fork of the real program, and the independent loop in its own process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from report_rows import rows

from assay_judge.cells import Cell

ROOT = Path(__file__).resolve().parents[2]
LOOPS = ROOT / "scripts/overhead"
DISTURBED, STOLEN = "disturbed", "stolen"
SECONDS_A_PROCESS = 3600.0
ADAPTER, LOOP = "adapter", "loop"
KEEPS_COMPILED = ("torch",)  # frameworks that by default keep compiled programs between processes


class PairError(RuntimeError):
    """One side did not run, or the two sides do not compute the same."""


@dataclass(frozen=True)
class Conditions:
    """How long each process is timed, and deviations from the defaults."""

    seconds: float = 1.0
    blocks: int = 10
    warm_up_steps: int = 10
    batch: int | None = None
    loop_environment: tuple[tuple[str, str], ...] = ()

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"loop_environment": dict(self.loop_environment)}


@dataclass(frozen=True)
class Program:
    """The places of Assay and of the frameworks."""

    assay: Path
    environments: Path

    def python(self, framework: str) -> Path:
        return self.environments / framework / "bin/python"


@dataclass(frozen=True)
class Side:
    """The result of one process, and the network that it ran."""

    step_seconds: float
    parameters: int
    inputs: list[int]
    version: str
    settings: dict[str, str]
    flags: list[str]
    program: dict[str, Any]  # of Assay: version and commit


def flags_of(sides: Mapping[str, Side]) -> list[str]:
    """Return the disturbances of a pair: shares of others on each side, and of a hypervisor on both.

    The share of a hypervisor on one side depends on how often that side's threads wait.
    """
    either = {flag for side in sides.values() for flag in side.flags}
    both = {flag for flag in either if all(flag in side.flags for side in sides.values())}
    return sorted((either & {DISTURBED}) | (both & {STOLEN}))


def order_of(number: int) -> tuple[str, str]:
    """Return which process of pair `number`, counted from 0, runs first: they alternate."""
    return (ADAPTER, LOOP) if number % 2 == 0 else (LOOP, ADAPTER)


def run(command: list[object], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    done = [str(word) for word in command]
    try:
        return subprocess.run(
            done, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS_A_PROCESS
        )
    except subprocess.TimeoutExpired as error:
        raise PairError(f"no end after {SECONDS_A_PROCESS:.0f} s: {' '.join(done)}") from error


def adapter_command(assay: Path, cell: Cell, conditions: Conditions, report: Path) -> list[object]:
    command: list[object] = [assay, "run", "--workload", cell.network, "--backend", cell.framework]
    command += ["--mode", cell.mode, "--task", cell.task, "--loader", cell.loader]
    command += ["--dataset", "synthetic", "--forks", 1, "--spare-rounds", 0, "--check=false"]
    command += ["--blocks", conditions.blocks, "--block-seconds", conditions.seconds / conditions.blocks]
    command += ["--warm-up-steps", conditions.warm_up_steps]
    if conditions.batch:
        command += ["--batch", conditions.batch]
    # Compiled programs are reused, as in the loop: no clock includes compiling.
    if cell.framework in KEEPS_COMPILED:
        command += ["--compile-cache", "warm"]
    return [*command, "--keep-folders", "--out", report]


def loop_command(python: Path, cell: Cell, conditions: Conditions) -> list[object]:
    command: list[object] = [python, LOOPS / f"{cell.framework}_loop.py", "--network", cell.network]
    command += ["--mode", cell.mode, "--task", cell.task]
    # The harness's loader is compared with the framework's own loader, which users have.
    command += ["--loader", "resident" if cell.loader == "resident" else "native"]
    command += ["--seconds", conditions.seconds, "--blocks", conditions.blocks]
    command += ["--warm-up-steps", conditions.warm_up_steps]
    return [*command, *(("--batch", conditions.batch) if conditions.batch else ())]


def graph_facts(graph: dict[str, Any]) -> tuple[int, list[int]]:
    """Return the number of trained parameters of the program, and the shape of its input."""
    values = graph["training"]["values"]
    parameters = sum(math.prod(value["shape"]) for value in values if value["role"] == "parameter")
    return parameters, next(value["shape"] for value in values if value["role"] == "input")


def step_seconds(fork: dict[str, Any]) -> float:
    timed = [block for block in rows(fork["blocks"]) if block["kind"] == "timed"]
    return 1e-9 * float(median((block["end_ns"] - block["begin_ns"]) / block["steps"] for block in timed))


def run_adapter(program: Program, cell: Cell, conditions: Conditions) -> Side:
    with tempfile.TemporaryDirectory(prefix="assay-judge-") as folder:
        report = Path(folder) / "report.json"
        environment = os.environ | {"TMPDIR": folder, "ASSAY_ENVIRONMENTS": str(program.environments)}
        done = run(adapter_command(program.assay, cell, conditions, report), environment)
        if not report.exists():
            raise PairError(f"assay run failed: {(done.stderr or done.stdout)[-2000:]}")
        found = json.loads(report.read_text())
        (of_cell,) = found["cells"]
        if of_cell["status"] != "ok":
            tail = "".join(fork.get("log_tail", "") for fork in of_cell["forks"])
            raise PairError(f"assay run: {of_cell['status']}: {of_cell['reason']} {tail[-1000:]}")
        (fork,) = of_cell["forks"]
        (graph,) = Path(folder).rglob("graph.json")
        parameters, inputs = graph_facts(json.loads(graph.read_text()))
    return Side(
        step_seconds(fork),
        parameters,
        inputs,
        of_cell["backend_version"],
        fork.get("settings", {}),
        [flag for flag in fork.get("flags", []) if flag in (DISTURBED, STOLEN)],
        {key: found["run"][key] for key in ("version", "commit", "dirty")},
    )


def run_loop(program: Program, cell: Cell, conditions: Conditions) -> Side:
    # The caller's own environment; cells are of the CPU, even if a framework would use a GPU by default.
    environment = os.environ | dict(conditions.loop_environment) | {"CUDA_VISIBLE_DEVICES": ""}
    done = run(loop_command(program.python(cell.framework), cell, conditions), environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("loop: ")]
    if done.returncode != 0 or not lines:
        raise PairError(f"the loop failed: exit code {done.returncode}: {done.stderr[-2000:]}")
    found = json.loads(lines[-1].removeprefix("loop: "))
    return Side(
        found["step_seconds"],
        found["parameters"],
        [found["batch"], *found["shape"]],
        found["version"],
        found["settings"],
        found["flags"],
        {},
    )


def reject_other_work(adapter: Side, loop: Side) -> None:
    """Raise if the sides do not train the same network on batches of the same shape."""
    for what, ours, theirs in (
        ("parameters", adapter.parameters, loop.parameters),
        ("input shape", adapter.inputs, loop.inputs),
    ):
        if ours != theirs:
            raise PairError(f"not the same work: {what} of Assay {ours}, of the loop {theirs}")


def make_pair(program: Program, cell: Cell, conditions: Conditions, number: int) -> dict[str, Side]:
    runs = {ADAPTER: run_adapter, LOOP: run_loop}
    sides = {side: runs[side](program, cell, conditions) for side in order_of(number)}
    reject_other_work(sides[ADAPTER], sides[LOOP])
    return sides
