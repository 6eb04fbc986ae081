"""Wrong adapters on purpose: which of them does the check find?

    scripts/mutants [--backends torch,jax] [--modes eager,compiled] [--only TEXT] [--runs 1]
                    [--side-by-side 2] [--out FILE]

A mutant is an adapter with one mistake or cheat: those of tests/mutants/wrong.py in front of every adapter
of a framework, their counterparts in tests/mutants/wrong_worker.cpp in front of onednn, and the edits of
tests/mutants/edits.py in the source of one adapter. Each is run as a user would run the backend, with a
few timed steps and the exam after them; `found` means wrong_result or failed. The unchanged adapters run
first, and must be ok.

Needs a build of Assay and the environments of scripts/setup --framework. A backend that is not set up is left
out and named.
Exit code 1: a mistake survived, an unchanged adapter was refused, or an edit no longer fits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from campaign import ROOT, parse, parser_of
from edits import EDITS, Edit
from wrong import MUTANTS

# The backends' names of "eager" and "compiled".
MODES = {
    "numpy": {"eager": "eager"},
    "mxnet": {"eager": "eager", "compiled": "hybridize"},
    "jax": {"eager": "eager", "compiled": "jit"},
    "torch": {"eager": "eager", "compiled": "compile"},
    "tensorflow": {"eager": "eager", "compiled": "graph"},
    "onednn": {"eager": "eager", "compiled": "graph"},
}
# numpy's adapter has no embedding, LSTM or dropout of a network.
CELLS = {
    "train": ["--workload", "mlp"],
    "infer": ["--workload", "mlp", "--task", "infer"],
    "image": ["--workload", "lenet5", "--batch", "8"],
    "dropout": ["--workload", "cifar10-cnn", "--batch", "4"],
    "text": ["--workload", "lstm", "--batch", "4"],
    "native": ["--workload", "mlp", "--loader", "native", "--samples", "3200"],
}
SHORT = (
    *(
        "--dataset",
        "synthetic",
        "--steps",
        "24",
        "--warm-up-steps",
        "2",
        "--warm-up-seconds",
        "0",
    ),
    *("--forks", "1", "--spare-rounds", "0", "--roofline", "false", "--threads", "1"),
)
FOUND = {"wrong_result", "failed"}


@dataclass(frozen=True)
class Job:
    backend: str
    mode: str  # of the backend
    name: str
    cell: str
    cheats: bool = False
    edit: Edit | None = None

    @property
    def mutant(self) -> str | None:
        return None if self.edit or not self.name else self.name


@dataclass(frozen=True)
class Result:
    job: Job
    seed: int
    status: str
    reason: str


class Stale(Exception):
    """An edit no longer fits its file."""


def folder_of(tree: Path, backend: str) -> Path:
    return tree / ("tests/numpy_backend" if backend == "numpy" else f"backends/{backend}")


def wrong_worker(program: Path) -> Path:
    """Where the build of the program has onednn's wrong worker."""
    return program.resolve().parent / "tests/mutants/wrong-worker"


def make_onednn(tree: Path, program: Path, job: Job) -> Path:
    """Write a backend.json that starts the wrong worker of onednn; return its folder."""
    declared = json.loads((ROOT / "backends/onednn/backend.json").read_text())
    declared["command"], declared["requires"] = [str(wrong_worker(program)), job.name or "-"], []
    folder = tree / "onednn"
    folder.mkdir()
    (folder / "backend.json").write_text(json.dumps(declared))
    return folder


def make_tree(tree: Path, program: Path, job: Job) -> Path:
    """Copy the workers, with the mutant in the one; return its backend's folder."""
    if job.backend == "onednn":
        return make_onednn(tree, program, job)
    for part in ("backends/python", str(folder_of(Path(), job.backend))):
        shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
    folder = folder_of(tree, job.backend)
    if job.edit:
        source = folder / job.edit.file
        text = source.read_text()
        if text.count(job.edit.old) != 1:
            raise Stale(
                f"{job.backend}, {job.name}: '{job.edit.old}' stands {text.count(job.edit.old)} times"
            )
        source.write_text(text.replace(job.edit.old, job.edit.new))
    if job.mutant:
        shutil.copy(ROOT / "tests/mutants/wrong.py", folder / "wrong.py")
        worker = folder / "worker.py"
        head, _, served = worker.read_text().rpartition("worker_main(")
        served = f"worker_main(mutated({served.rstrip()[:-1]}, '{job.mutant}'))"
        worker.write_text(f"{head}from wrong import mutated\n    {served}\n")
    return folder


def run(program: Path, job: Job, seed: int) -> Result:
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        environment = os.environ | {"ASSAY_BACKENDS": str(make_tree(tree, program, job))}
        report = tree / "report.json"
        command = [str(program), "run", "--backend", job.backend, "--mode", job.mode,
                   *CELLS[job.cell], *SHORT]  # fmt: skip
        done = subprocess.run(
            [*command, "--seed", str(seed), "--out", str(report)],
            capture_output=True, text=True, env=environment, timeout=900, check=False,
        )  # fmt: skip
        if not report.exists():
            return Result(job, seed, "no report", done.stderr[-300:])
        (cell,) = json.loads(report.read_text())["cells"]
        return Result(job, seed, cell["status"], cell["reason"])


def is_set_up(program: Path, backend: str) -> bool:
    if backend == "onednn":
        return wrong_worker(program).exists()
    environment = os.environ | {"ASSAY_BACKENDS": str(folder_of(ROOT, backend))}
    listed = subprocess.run(
        [str(program), "run", "--dry-run", "--backend", backend, *CELLS["train"], *SHORT],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    return listed.returncode == 0 and "unavailable" not in listed.stdout


def jobs_of(backend: str, mode: str) -> list[Job]:
    edits = [edit for edit in EDITS if edit.backend == backend]
    cells = {kind.cell for kind in MUTANTS.values()} | {edit.cell for edit in edits}
    honest = [Job(backend, mode, "", cell) for cell in sorted(cells)]
    common = [Job(backend, mode, name, kind.cell, kind.cheats) for name, kind in MUTANTS.items()]
    return honest + common + [Job(backend, mode, edit.name, edit.cell, False, edit) for edit in edits]


def row_of(result: Result) -> dict[str, object]:
    job = result.job
    return {"backend": job.backend, "mode": job.mode, "mutant": job.name, "cell": job.cell,
            "cheats": job.cheats, "seed": result.seed, "status": result.status,
            "reason": result.reason}  # fmt: skip


def judge(results: list[Result]) -> int:
    """Print the mutants that were found and those that were not; return the exit code."""
    bad = False
    counts: dict[str, list[int]] = {
        "mistakes": [0, 0],
        "cheats": [0, 0],
        "mistakes below what it can tell": [0, 0],
        "adapters as they are": [0, 0],
    }
    for result in results:
        job = result.job
        known = bool(job.edit and job.edit.survives)
        kind = "adapters as they are" if not job.name else "cheats" if job.cheats else "mistakes"
        kind = "mistakes below what it can tell" if known else kind
        as_wanted = result.status == "ok" if not job.name else result.status in FOUND
        counts[kind][0] += as_wanted
        counts[kind][1] += 1
        bad = bad or (not as_wanted and kind != "cheats" and not known)
        if not as_wanted:
            named = f"{job.backend} {job.mode}, {job.name or 'as it is'} ({job.cell}), seed {result.seed}"
            print(f"{named}: {result.status} {result.reason}")
    for kind, (good, all_) in counts.items():
        print(f"{kind}: {good} of {all_} {'ok' if kind.startswith('adapters') else 'found'}")
    return int(bad)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--backends", default=",".join(MODES), help="which adapters (default: all)")
    parser.add_argument("--modes", default="eager", help="eager, compiled or both (default: eager)")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose name contains it")
    parser.add_argument(
        "--runs", type=int, default=1, help="runs of each, with the seeds 1, 2, ... (default: 1)"
    )
    parser.add_argument("--out", type=Path, help="file of all results as JSON, saved after each")
    given = parse(parser)
    kinds = given.modes.split(",")
    if not set(kinds) <= {"eager", "compiled"}:
        parser.error(f"--modes {given.modes}: known are eager and compiled")
    jobs: list[Job] = []
    for backend in given.backends.split(","):
        if backend not in MODES:
            parser.error(f"--backends {backend}: known are {', '.join(MODES)}")
        if is_set_up(given.assay, backend):
            found = [MODES[backend][kind] for kind in kinds if kind in MODES[backend]]
            jobs += [
                job for mode in found for job in jobs_of(backend, mode)
                if not job.name or given.only in job.name
            ]  # fmt: skip
        else:
            print(f"{backend} is not set up: left out")
    results: list[Result] = []
    try:
        with ThreadPoolExecutor(given.side_by_side) as pool:
            tasks = [
                pool.submit(run, given.assay, job, seed + 1) for job in jobs for seed in range(given.runs)
            ]
            for number, task in enumerate(tasks):
                results.append(task.result())
                print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr, flush=True)
                if given.out:
                    given.out.write_text(json.dumps([row_of(result) for result in results], indent=1) + "\n")
    except Stale as error:
        print(f"\nstale: {error}", file=sys.stderr)
        return 1
    print(file=sys.stderr)
    return judge(results)


if __name__ == "__main__":
    sys.exit(main())
