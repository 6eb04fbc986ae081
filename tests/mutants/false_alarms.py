"""Does the check refuse correct results? Every network, backend, mode, task and precision with many seeds.

    scripts/false-alarms [--workloads mlp,lenet5] [--backends torch,jax] [--precisions fp32,bf16] [--seeds 5]
                         [--side-by-side 2] [--out FILE] [--markdown FILE]

Each cell is run as a user would run it, with a few timed steps and the exam after them. Batches are small, so
that the oracle is quick; other tests check how a bound depends on the size of a batch.
--out saves the results after each run, and a later run with the same file continues.
The differences in docs/reference/differences.md are expected: those cells are named and not counted.

Needs a build of Assay and the environments of scripts/setup --framework.
Exit code 1: a cell was refused that is not listed, or failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from campaign import parse, parser_of

# Workload: the batch of its exam.
BATCHES = {"mlp": 16, "lenet5": 16, "cnn": 8, "lstm": 4, "cifar10-cnn": 8, "resnet56": 8}
BACKENDS = ("reference", "onednn", "torch", "jax", "tensorflow", "mxnet")
SHORT = (
    *("--dataset", "synthetic", "--mode", "all", "--steps", "12", "--warm-up-steps", "2"),
    *("--warm-up-seconds", "0", "--forks", "1", "--spare-rounds", "0", "--roofline", "false"),
    *("--threads", "1", "--time-limit", "900"),
)
# XLA on a CPU sums the gradient of a bias in bf16: docs/reference/differences.md. (network, backend)
KNOWN_BF16 = {("lenet5", "jax"), ("lenet5", "tensorflow"), ("cnn", "jax"), ("cnn", "tensorflow")}
NOT_JUDGED = ("unsupported", "unavailable")

Row = dict[str, object]


@dataclass(frozen=True)
class Job:
    workload: str
    backend: str
    task: str
    precision: str
    seed: int

    @property
    def key(self) -> str:
        return f"{self.workload}/{self.backend}/{self.task}/{self.precision}/{self.seed}"


def run(program: Path, job: Job) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="false-alarms-") as folder:
        report = Path(folder) / "report.json"
        done = subprocess.run(
            [str(program), "run", "--workload", job.workload, "--backend", job.backend, "--task", job.task,
             "--precision", job.precision, "--batch", str(BATCHES[job.workload]), "--seed", str(job.seed),
             *SHORT, "--out", str(report)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not report.exists():
            return [{"mode": "", "status": "no report", "reason": done.stderr[-300:], "loosest": None}]
        cells = json.loads(report.read_text())["cells"]
    return [row_of(cell) for cell in cells]


def row_of(cell: dict[str, object]) -> Row:
    equivalence = cell.get("equivalence") or {}
    assert isinstance(equivalence, dict)
    axes = cell["axes"]
    assert isinstance(axes, dict)
    return {"mode": axes["mode"], "status": cell["status"], "reason": cell["reason"],
            "worst": equivalence.get("worst")}  # fmt: skip


def is_known(workload: str, backend: str, precision: str) -> bool:
    return precision == "bf16" and (workload, backend) in KNOWN_BF16


def table(results: dict[str, list[Row]]) -> list[str]:
    """Rows of a page: the judged cells per network and precision, and the ratio nearest to a bound."""
    counts: Counter[tuple[str, str, str]] = Counter()
    worst: dict[tuple[str, str], float] = {}
    for key, rows in results.items():
        workload, backend, _, precision, _ = key.split("/")
        for row in rows:
            if row["status"] in NOT_JUDGED:
                continue
            known = is_known(workload, backend, precision)
            right = row["status"] == "ok"
            kind = "ok" if right else "known" if known else "refused"
            for counted in ("judged", kind):
                counts[workload, precision, counted] += 1
            nearest = row.get("worst")
            if right and isinstance(nearest, float):
                worst[workload, precision] = max(worst.get((workload, precision), 0), nearest)
    lines = [
        "| network | precision | cells judged | refused | listed differences | nearest to a bound |",
        "|---|---|---|---|---|---|",
    ]
    for workload, precision in sorted({key[:2] for key in counts}):
        judged, refused, listed = (counts[workload, precision, k] for k in ("judged", "refused", "known"))
        near = worst.get((workload, precision))
        lines.append(
            f"| {workload} | {precision} | {judged} | {refused} | {listed} |"
            f" {'' if near is None else f'{100 * near:.0f} %'} |"
        )
    return lines


def alarms(results: dict[str, list[Row]]) -> list[str]:
    found = []
    for key, rows in results.items():
        workload, backend, _, precision, _ = key.split("/")
        for row in rows:
            refused = row["status"] not in ("ok", *NOT_JUDGED)
            if refused and not is_known(workload, backend, precision):
                found.append(f"{key} {row['mode']}: {row['status']}: {row['reason']}")
    return found


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--workloads", default=",".join(BATCHES))
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--tasks", default="train,infer")
    parser.add_argument("--precisions", default="fp32,bf16")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each, with the seeds 1, 2, ...")
    parser.add_argument("--out", type=Path, help="file of results as JSON, which a later run continues")
    parser.add_argument("--markdown", type=Path, help="file for the table of a page")
    given = parse(parser)
    unknown = set(given.workloads.split(",")) - set(BATCHES)
    if unknown:
        parser.error(f"--workloads {', '.join(sorted(unknown))}: known are {', '.join(BATCHES)}")
    results: dict[str, list[Row]] = {}
    if given.out and given.out.exists():
        results = json.loads(given.out.read_text())
    jobs = [
        Job(workload, backend, task, precision, seed + 1)
        for seed in range(given.seeds)
        for workload in given.workloads.split(",")
        for backend in given.backends.split(",")
        for task in given.tasks.split(",")
        for precision in given.precisions.split(",")
    ]
    jobs = [job for job in jobs if job.key not in results]
    with ThreadPoolExecutor(given.side_by_side) as pool:
        tasks = {job.key: pool.submit(run, given.assay, job) for job in jobs}
        for number, (key, task) in enumerate(tasks.items()):
            results[key] = task.result()
            print(f"\r{number + 1} of {len(tasks)}", end="", file=sys.stderr, flush=True)
            if given.out:
                given.out.write_text(json.dumps(results, indent=1) + "\n")
    print(file=sys.stderr)
    lines = table(results)
    print("\n".join(lines))
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n")
    found = alarms(results)
    print("\n".join(found))
    print(f"{len(found)} cells were refused that should not be")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
