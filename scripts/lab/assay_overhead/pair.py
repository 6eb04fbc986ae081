"""One pair of processes: a fork of the real program, and the independent loop, which take turns."""

from __future__ import annotations

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from report_rows import rows

from assay_overhead.cells import OPERATORS, RUNTIMES, Cell
from assay_overhead.processes import Running
from assay_overhead.turns import ADAPTER, LOOP, Block, Ratio, Turn, alternate, ratios_of

ROOT = Path(__file__).resolve().parents[3]
LOOPS = ROOT / "scripts/lab/overhead"
SECONDS_A_PROCESS = 3600.0
KEEPS_COMPILED = ("torch",)  # frameworks that by default keep compiled programs between processes
BLOCKS_A_TURN = 6  # the first is not counted, and a turn's end cuts the last
WARM_UP_SECONDS = 0.5
# What a loop prints after its first step, before its timed blocks, and at its end.
COMPILED, WARM, RESULT = "loop: compiled", "loop: warm ", "loop: {"
RUNNING = ".npy"  # a worker maps the data set's arrays when its run begins


class PairError(RuntimeError):
    """One side did not run, or the two sides do not compute the same."""


@dataclass(frozen=True)
class Conditions:
    """How long each process is timed, and deviations from the defaults."""

    turns: int = 5
    turn_seconds: float = 0.6
    warm_up_steps: int = 10
    batch: int | None = None
    loop_environment: tuple[tuple[str, str], ...] = ()
    # The Python of a framework's loop, if it is not that of the adapter.
    loop_python: tuple[tuple[str, str], ...] = ()
    # So small that neither side learns its few batches by heart: moments of gradients that vanish become
    # subnormal numbers, with which a processor needs longer, and the two sides have different data.
    learning_rate: float = 1e-6
    precision: str = "fp32"

    @property
    def block_seconds(self) -> float:
        return self.turn_seconds / BLOCKS_A_TURN

    @property
    def blocks(self) -> int:
        """The blocks of the adapter: a turn more, because its warm-up may last into its first turn."""
        return (self.turns + 1) * BLOCKS_A_TURN

    def as_json(self) -> dict[str, Any]:
        own = {"loop_environment": dict(self.loop_environment), "loop_python": dict(self.loop_python)}
        found = asdict(self) | own
        if self.precision == "fp32":
            del found["precision"]  # as in files from before there was a choice
        return found


@dataclass(frozen=True)
class Program:
    """The places of Assay and of the frameworks."""

    assay: Path
    environments: Path
    loop_python: Mapping[str, Path] = field(default_factory=dict)  # by framework

    def python_of_loop(self, framework: str) -> Path:
        return self.loop_python.get(framework, self.environments / framework / "bin/python")


@dataclass(frozen=True)
class Side:
    """The result of one process, and the network that it ran."""

    blocks: list[Block]
    parameters: int
    inputs: list[int]
    version: str
    settings: dict[str, str]
    program: dict[str, Any]  # of Assay: version and commit


@dataclass(frozen=True)
class Pair:
    """Both sides and what they make together."""

    sides: dict[str, Side]
    ratios: list[Ratio]


def order_of(number: int) -> tuple[str, str]:
    """Return which side of pair `number`, counted from 0, has the first turn: they alternate."""
    return (ADAPTER, LOOP) if number % 2 == 0 else (LOOP, ADAPTER)


def adapter_command(assay: Path, cell: Cell, conditions: Conditions, report: Path) -> list[object]:
    command: list[object] = [assay, "run", "--workload", cell.network, "--backend", cell.framework]
    command += ["--mode", cell.mode, "--task", cell.task]
    if cell.network in OPERATORS:
        command += ["--size", OPERATORS[cell.network], "--cache", "warm", "--roofline", "false"]
    else:
        command += ["--loader", cell.loader, "--dataset", "synthetic"]
    command += ["--forks", 1, "--spare-rounds", 0, "--check=false"]
    command += ["--blocks", conditions.blocks, "--block-seconds", f"{conditions.block_seconds:.6g}"]
    command += ["--warm-up-steps", conditions.warm_up_steps, "--warm-up-seconds", WARM_UP_SECONDS]
    if cell.task == "train":
        command += ["--learning-rate", f"{conditions.learning_rate:g}"]
    if conditions.batch:
        command += ["--batch", conditions.batch]
    if conditions.precision != "fp32":
        command += ["--precision", conditions.precision]
    # Compiled programs are reused, as in the loop: no clock includes compiling.
    if cell.framework in KEEPS_COMPILED:
        command += ["--compile-cache", "warm"]
    return [*command, "--keep-folders", "--out", report]


def write_model(program: Program, cell: Cell, conditions: Conditions, folder: Path) -> Path:
    """Write the network of a runtime's loop as a file."""
    batch = ["--batch", str(conditions.batch)] if conditions.batch else []
    graph, model = folder / "graph.json", folder / "model.onnx"
    python = program.python_of_loop(cell.framework)
    inspect: list[object] = [program.assay, "inspect", cell.network, "--graph", *batch]
    write: list[object] = [python, LOOPS / "write_model.py", graph, model]
    try:
        found = subprocess.run([*map(str, inspect)], capture_output=True, check=True)
        graph.write_bytes(found.stdout)
        subprocess.run([*map(str, write)], capture_output=True, check=True)
    except OSError as error:
        raise PairError(f"the model was not written: {error}") from None
    except subprocess.CalledProcessError as error:
        raise PairError(f"the model was not written: {error.stderr.decode()[-2000:]}") from None
    return model


def loop_command(python: Path, cell: Cell, conditions: Conditions) -> list[object]:
    command: list[object] = [python, LOOPS / f"{cell.framework}_loop.py", "--network", cell.network]
    command += ["--mode", cell.mode, "--task", cell.task]
    # The harness's loader is compared with the framework's own loader, which users have.
    command += ["--loader", "resident" if cell.loader == "resident" else "native"]
    command += ["--seconds", SECONDS_A_PROCESS, "--block-seconds", f"{conditions.block_seconds:.6g}"]
    command += [
        "--warm-up-steps",
        conditions.warm_up_steps,
        "--learning-rate",
        f"{conditions.learning_rate:g}",
    ]
    if conditions.precision != "fp32":
        command += ["--precision", conditions.precision]
    return [*command, *(("--batch", conditions.batch) if conditions.batch else ())]


def graph_facts(graph: dict[str, Any]) -> tuple[int, list[int]]:
    """Return the number of trained parameters of the program, and the shape of its input."""
    values = graph["inference"]["values"]
    parameters = sum(math.prod(value["shape"]) for value in values if value["role"] == "parameter")
    return parameters, next(value["shape"] for value in values if value["role"] == "input")


def read_adapter(folder: Path, said: str) -> Side:
    """Read the report of an `assay run` that has ended."""
    report = folder / "report.json"
    if not report.exists():
        raise PairError(f"assay run failed: {said[-2000:]}")
    found = json.loads(report.read_text())
    (of_cell,) = found["cells"]
    if of_cell["status"] != "ok":
        tail = "".join(fork.get("log_tail", "") for fork in of_cell["forks"])
        raise PairError(f"assay run: {of_cell['status']}: {of_cell['reason']} {tail[-1000:]}")
    (fork,) = of_cell["forks"]
    # The first run of a machine measures its peak, too, which has another folder.
    (graph,) = folder.rglob(f"{of_cell['id'].replace('/', '_')}/graph.json")
    parameters, inputs = graph_facts(json.loads(graph.read_text()))
    timed = [block for block in rows(fork["blocks"]) if block["kind"] == "timed"]
    return Side(
        [Block(block["begin_ns"], block["end_ns"], block["steps"]) for block in timed],
        parameters,
        inputs,
        of_cell["backend_version"],
        fork.get("settings", {}),
        {key: found["run"][key] for key in ("version", "commit", "dirty")},
    )


def read_loop(said: str, errors: str, exit_code: int | None) -> Side:
    """Read what a loop that has ended printed."""
    lines = [line for line in said.splitlines() if line.startswith(RESULT)]
    if exit_code != 0 or not lines:
        raise PairError(f"the loop failed: exit code {exit_code}: {errors[-2000:]}")
    found = json.loads(lines[-1].removeprefix("loop: "))
    return Side(
        [Block(*block) for block in found["blocks"]],
        found["parameters"],
        [found["batch"], *found["shape"]],
        found["version"],
        found["settings"],
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


class Started:
    """Both sides of a pair from their start to their end."""

    def __init__(self, program: Program, cell: Cell, conditions: Conditions, folder: Path) -> None:
        self._files = {side: (folder / f"{side}.out", folder / f"{side}.err") for side in (ADAPTER, LOOP)}
        self._folder = folder
        self._steps = 1 + conditions.warm_up_steps
        outer = {"TMPDIR": str(folder), "ASSAY_ENVIRONMENTS": str(program.environments)}
        # The caller's own environment; cells are of the CPU, even if a framework would use a GPU by default.
        alone = dict(conditions.loop_environment) | {"CUDA_VISIBLE_DEVICES": ""}
        commands = {
            ADAPTER: adapter_command(program.assay, cell, conditions, folder / "report.json"),
            LOOP: loop_command(program.python_of_loop(cell.framework), cell, conditions),
        }
        if cell.framework in RUNTIMES:
            commands[LOOP] += ["--model", write_model(program, cell, conditions, folder)]
        environments = {ADAPTER: os.environ | outer, LOOP: os.environ | alone}
        self.sides = {side: self._start(side, commands[side], environments[side]) for side in commands}

    def warm_up(self) -> float:
        """Wait until both sides can take turns; then both are stopped. Return the loop's time of a step.

        Both start and compile at once, and the side that has compiled first waits. Then each warms up with
        the processors to itself, because that decides how many steps its timed blocks have.
        """
        adapter, loop = self.sides[ADAPTER], self.sides[LOOP]
        compiled = began = False  # the loop's first step; the adapter's run
        start = time.monotonic()
        while not (compiled and (began or adapter.ended())):
            self._wait_since(start)
            if not compiled and self._line_of_loop(COMPILED) is not None:
                compiled = True
                loop.stop()
            if not began and adapter.children_map(RUNNING):
                began = True
                adapter.stop()
        loop.go_on()
        start = time.monotonic()
        while (step := self._line_of_loop(WARM)) is None:
            self._wait_since(start)
        loop.stop()
        if began:
            adapter.go_on()
            adapter.wait_until_ended(WARM_UP_SECONDS + self._steps * float(step))
            adapter.stop()
        return float(step)

    def finish(self) -> dict[str, Side]:
        """Let the loop end, and read both sides."""
        adapter, loop = self.sides[ADAPTER], self.sides[LOOP]
        loop.go_on()
        loop.finish()
        if not loop.wait_until_ended(SECONDS_A_PROCESS):
            raise PairError(f"the loop did not end within {SECONDS_A_PROCESS:.0f} s")
        said = {side: [file.read_text(errors="replace") for file in self._files[side]] for side in self.sides}
        found = read_loop(said[LOOP][0], said[LOOP][1], loop.exit_code())
        adapter.wait_until_ended(0)
        return {ADAPTER: read_adapter(self._folder, "".join(reversed(said[ADAPTER]))), LOOP: found}

    def end(self) -> None:
        for side in self.sides.values():
            side.end()

    def _start(self, side: str, command: list[object], environment: Mapping[str, str]) -> Running:
        out, err = self._files[side]
        with out.open("wb") as out_file, err.open("wb") as err_file:
            return Running(command, environment, out_file, err_file)

    def _wait_since(self, start: float) -> None:
        if time.monotonic() - start > SECONDS_A_PROCESS:
            raise PairError(f"the sides were not warm within {SECONDS_A_PROCESS:.0f} s")
        time.sleep(0.02)

    def _line_of_loop(self, begin: str) -> str | None:
        """Return the rest of the loop's line that begins so; None if it has not come yet.

        Raise PairError if the loop has ended without it.
        """
        out, err = self._files[LOOP]
        ended = self.sides[LOOP].ended()
        for line in out.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith(begin) and line.endswith("\n"):
                return line.removeprefix(begin).strip()
        if not ended:
            return None
        read_loop(
            out.read_text(errors="replace"), err.read_text(errors="replace"), self.sides[LOOP].exit_code()
        )
        raise PairError("the loop ended before its timed blocks")


@contextmanager
def started(program: Program, cell: Cell, conditions: Conditions) -> Iterator[Started]:
    with tempfile.TemporaryDirectory(prefix="assay-overhead-") as folder:
        both = Started(program, cell, conditions, Path(folder))
        try:
            yield both
        finally:
            both.end()


def make_pair(program: Program, cell: Cell, conditions: Conditions, number: int) -> Pair:
    with started(program, cell, conditions) as both:
        step = both.warm_up()
        seconds = BLOCKS_A_TURN * max(conditions.block_seconds, step)
        turns: list[Turn] = alternate(order_of(number), both.sides, seconds)
        sides = both.finish()
    reject_other_work(sides[ADAPTER], sides[LOOP])
    return Pair(sides, ratios_of(turns, {side: one.blocks for side, one in sides.items()}))
