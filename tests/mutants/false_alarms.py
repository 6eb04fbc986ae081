"""Does the check refuse correct results? Every network, backend, mode, task and precision with many exams.

    scripts/lab/false-alarms [--workloads mlp,lenet5] [--backends torch,jax] [--precisions fp32,bf16]
                             [--modes eager,graph] [--seeds 5] [--image-size 96] [--side-by-side 2]
                             [--out FILE] [--markdown FILE]

Each cell is run as a user would run it, with a few timed steps and the exam after them. One process runs
five forks of a cell, so that it imports and compiles once; each fork has its own seed and its own exam. All
cells of a network take the same five seeds before the next five, whose answers would push theirs out of the
oracle's cache.
Batches are small, so that the oracle is quick; other tests check how a bound depends on the size of a batch.
Large networks are left out unless --workloads names them: their oracle needs 10 GB of memory and more. It may
also name folders of imported networks, and the small networks of made_networks.py.
Single ops are not part of it: assay check --workload 'op/*' judges them.
A fork that is refused ends its five. The table has the largest ratio of an error to its bound.
The differences in docs/reference/differences.md are expected: those cells are named and not counted.

Needs a build of Assay and the environments of scripts/setup --framework.
Exit code 1: a cell was refused that is not listed, or failed.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from campaign import ROOT, OtherProgram, Results, Row, parse, parser_of, processor_minutes, run_all
from made_networks import MADE, write_network

# Workload: the size of its exam.
SIZES = {
    "mlp": ("--batch", "16"),
    "lenet5": ("--batch", "16"),
    "cnn": ("--batch", "8"),
    "lstm": ("--batch", "4"),
    "cifar10-cnn": ("--batch", "8"),
    "resnet56": ("--batch", "8"),
    "vit-tiny": ("--batch", "4"),
    "minilm": ("--batch", "4", "--sequence-length", "16"),
    "nanogpt": ("--batch", "4", "--sequence-length", "16"),
    "googlenet": ("--batch", "2"),
    "googlenet_bn": ("--batch", "2"),
    # With its own rate and two small images, it diverges within the seven steps of a run.
    "resnet50": ("--batch", "2", "--learning-rate", "0.001"),
}
IMAGES, TEXTS = ("--batch", "2"), ("--batch", "2", "--sequence-length", "16")
LARGE = dict.fromkeys(("alexnet", "overfeat", "vgg_a"), IMAGES)
LARGE |= dict.fromkeys(("bert-base", "gpt2-small"), TEXTS)
IMPORTED = ("--batch", "2")
GENERATES = ("nanogpt", "gpt2-small")  # task decode
BACKENDS = ("reference", "onednn", "torch", "jax", "tensorflow", "mxnet")
RUNTIMES = ("onnxruntime", "openvino")  # if they are named
SHORT = (
    *("--dataset", "synthetic", "--steps", "6", "--warm-up-steps", "1", "--warm-up-seconds", "0"),
    *("--resident-batches", "3", "--spare-rounds", "0", "--fork-style", "resident", "--examine", "all"),
    *("--roofline", "false", "--threads", "1", "--time-limit", "900"),
)
NOT_JUDGED = ("unsupported", "unavailable")
TOGETHER = 5  # seeds of one run: their exams stay on the disk until it ends, minilm's with 2 GB each


@dataclass(frozen=True)
class Difference:
    """Of docs/reference/differences.md: where a refusal is expected."""

    backends: tuple[str, ...]
    workloads: tuple[str, ...]
    precision: str
    tensor: str  # a pattern for the name of the tensor that is then the worst

    def explains(self, key: str, row: Row) -> bool:
        workload, backend, _, _, precision = key.split("/")[:5]
        return (
            (backend in self.backends and workload in self.workloads and precision == self.precision)
            and row["status"] == "wrong_result"
            and re.search(self.tensor, row["reason"].partition(":")[0]) is not None
        )


DIFFERENCES = (
    # XLA on a CPU adds up the gradient of a convolution's bias in bf16.
    Difference(
        ("jax", "tensorflow"), ("lenet5", "cnn", "googlenet", "resnet56"), "bf16", r"[/.]conv(\d|_pool)\.bias"
    ),
    # Keras's LSTM keeps its cell in bf16.
    Difference(("tensorflow",), ("lstm",), "bf16", r"/lstm\."),
    # The gradient of a linear layer's bias: TensorFlow adds it up in bf16, and JAX rounds the sum to bf16.
    Difference(("jax", "tensorflow"), ("minilm", "vit-tiny", "resnet56"), "bf16", r"\.bias"),
    # The logarithm in MXNet's log_softmax.
    Difference(("mxnet",), ("googlenet", "lstm", "resnet56"), "fp32", r"/loss$|/fc\.bias"),
    Difference(("mxnet",), ("minilm",), "fp32", r"/encoder\.layer\.5\.output\.(LayerNorm|dense)\.bias"),
)


@cache
def name_of(workload: str) -> str:
    """Return the name of a workload; that of a folder has a digest, as others may be called so."""
    folder = Path(workload)
    if not (folder / "network.json").is_file():
        return workload
    digest = hashlib.sha256()
    for file in ("network.json", "weights.safetensors"):
        digest.update((folder / file).read_bytes() if (folder / file).is_file() else b"")
    return f"{folder.name}@{digest.hexdigest()[:8]}"


@dataclass(frozen=True)
class Job:
    workload: str
    backend: str
    mode: str
    task: str
    precision: str
    seeds: int
    image_size: int | None = None
    first: int = 1  # seed

    @property
    def name(self) -> str:
        return name_of(self.workload)

    @property
    def key(self) -> str:
        words = [self.name, self.backend, self.mode, self.task, self.precision, f"{self.seeds}"]
        if self.image_size:
            words.append(f"{self.image_size}px")
        if self.first > 1:
            words.append(f"from {self.first}")
        return "/".join(words)


def run(program: Path, job: Job) -> Row:
    image = ["--image-size", f"{job.image_size}"] if job.image_size else []
    size = (SIZES | LARGE).get(job.name, IMPORTED)
    with tempfile.TemporaryDirectory(prefix="false-alarms-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [str(program), "run", "--workload", job.workload, "--backend", job.backend, "--mode", job.mode,
             "--task", job.task, "--precision", job.precision, *size, *SHORT, *image,
             "--seed", f"{job.first}", "--forks", f"{job.seeds}", "--exams", f"{job.seeds}",
             "--out", str(report)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not report.exists():
            return {"status": "no report", "reason": done.stderr[-300:], "worst": None, "exams": 0}
        (cell,) = json.loads(report.read_text())["cells"]
    return row_of(cell)


def row_of(cell: Row) -> Row:
    judged = [fork for fork in cell["forks"] if fork.get("examined")]
    return {"status": cell["status"], "reason": cell["reason"], "exams": len(judged),
            "worst": (cell.get("equivalence") or {}).get("worst")}  # fmt: skip


def is_known(key: str, row: Row) -> bool:
    return any(difference.explains(key, row) for difference in DIFFERENCES)


def table(results: dict[str, Row]) -> list[str]:
    """Rows of a page: the judged cells of each network, and how near each backend comes to a bound."""
    counts: Counter[tuple[str, str, str]] = Counter()
    cells: set[tuple[str, ...]] = set()
    nearest: dict[tuple[str, str, str], float] = {}
    for key, row in results.items():
        if row["status"] in NOT_JUDGED:
            continue
        workload, backend, mode, task, precision = key.split("/")[:5]
        cell = (workload, backend, mode, task, precision)
        counts[workload, precision, "cells"] += cell not in cells
        cells.add(cell)
        counts[workload, precision, "exams"] += row["exams"]
        if row["status"] != "ok":
            counts[workload, precision, "known" if is_known(key, row) else "refused"] += 1
        elif row["worst"] is not None:
            at = workload, precision, backend
            nearest[at] = max(nearest.get(at, 0.0), row["worst"])
    backends = [backend for backend in (*BACKENDS, *RUNTIMES) if any(at[2] == backend for at in nearest)]
    head = ["network", "precision", "cells", "exams", "refused", "listed differences", *backends]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for at_row in sorted({key[:2] for key in counts}):
        numbers = [str(counts[*at_row, kind]) for kind in ("cells", "exams", "refused", "known")]
        ratios = [f"{nearest[*at_row, of]:.2f}" if (*at_row, of) in nearest else "" for of in backends]
        lines.append(f"| {' | '.join([*at_row, *numbers, *ratios])} |")
    return lines


def alarms(results: dict[str, Row]) -> list[str]:
    return [
        f"{key}: {row['status']}: {row['reason']}"
        for key, row in results.items()
        if row["status"] not in ("ok", *NOT_JUDGED) and not is_known(key, row)
    ]


def place_of(workload: str, folders: Path) -> str:
    """Write a made network, and return its folder; other workloads are known by their names."""
    return str(write_network(workload, folders)) if workload in MADE else workload


def modes_of(backend: str, wanted: str) -> list[str]:
    """Return the modes of a backend: all, or those of a list with commas."""
    declared = json.loads((ROOT / f"backends/{backend}/backend.json").read_text())
    return [str(mode) for mode in declared["modes"] if not wanted or mode in wanted.split(",")]


def parts_of(seeds: int) -> list[tuple[int, int]]:
    """Return the first seed of each run, and how many it takes."""
    return [(1 + done, min(TOGETHER, seeds - done)) for done in range(0, seeds, TOGETHER)]


def in_order(jobs: Sequence[Job]) -> list[Job]:
    """Put the first job of each question to the oracle before the others of its network and seeds.

    They find its answer in the cache; side by side each would make it again, which takes minutes.
    """
    networks = list(dict.fromkeys(job.workload for job in jobs))
    ahead = {(job.workload, job.task, job.precision, job.first): job for job in reversed(jobs)}
    return sorted(jobs, key=lambda job: (networks.index(job.workload), job.first, job not in ahead.values()))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--workloads", default=",".join(SIZES))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--modes", default="", help="modes that are run (default: all)")
    parser.add_argument("--tasks", default="train,infer,decode")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--seeds", type=int, default=5, help="of each cell, each with its own exam")
    parser.add_argument("--image-size", type=int, help="pixels on each side of synthetic images")
    given = parse(parser)
    for option, known in (("workloads", SIZES | LARGE | MADE), ("backends", (*BACKENDS, *RUNTIMES))):
        unknown = set(getattr(given, option).split(",")) - set(known)
        if option == "workloads":
            unknown = {name for name in unknown if not Path(name, "network.json").is_file()}
        if unknown:
            parser.error(f"--{option} {', '.join(sorted(unknown))}: known are {', '.join(known)}")
    try:
        results = Results(given.out, given.assay)
    except OtherProgram as error:
        print(error, file=sys.stderr)
        return 1
    folders = tempfile.TemporaryDirectory(prefix="false-alarms-")
    workloads = [place_of(workload, Path(folders.name)) for workload in given.workloads.split(",")]
    jobs = [
        Job(workload, backend, mode, task, precision, seeds, given.image_size, first)
        for workload in workloads
        for backend in given.backends.split(",")
        for mode in modes_of(backend, given.modes)
        for task in given.tasks.split(",")
        for precision in given.precisions.split(",")
        for first, seeds in parts_of(given.seeds)
        if task != "decode" or workload in GENERATES
    ]
    run_all(
        [(job.key, job) for job in in_order(jobs)], partial(run, given.assay), results, given.side_by_side
    )
    print(f"{processor_minutes():.1f} minutes of processor time", file=sys.stderr)
    rows = {job.key: results.rows[job.key] for job in jobs}
    lines = table(rows)
    print("\n".join(lines))
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n")
    found = alarms(rows)
    print("\n".join(found))
    print(f"{len(found)} cells were refused that should not be")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
