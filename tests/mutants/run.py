"""Wrong adapters on purpose: which of them does the check find?

    scripts/lab/mutants [--backends torch,jax] [--modes eager,compiled] [--only TEXT] [--cells masks,causal]
                    [--seeds 1] [--side-by-side 2] [--out FILE] [--markdown FILE]

A mutant is an adapter with one mistake or cheat: those of tests/mutants/mistakes.py and cheats.py in front of
every adapter and of onednn, and the edits of tests/mutants/edits.py in the source of one adapter. Each is run
as a user would run the backend, with a few timed steps and the exam after them. These must be ok: the
unchanged adapters, and torch's adapter with correct layers that round differently (tests/mutants/variants.py;
--only "correct: " runs these alone).

A mistake is found if the check says wrong_result and names a tensor that the mistake affects, or if training
diverges. A cheat, or a mistake that is not one of results, is found if the fork ends with its reason code.
On a busy machine a cheat with the clock is excused, because it does not count: its fork has the flag
`disturbed` from the conductor's measurement, and not from the worker's word.
A mutant that ends with an error of its own proves nothing, so it is not found.

A framework is imported once, by a process that forks for each run (tests/mutants/preload.py).
--fresh starts a process for each run, as users do. A few cheats always have one, because the children of that
process are not confined, and are not the conductor's; they also get a cache of their own.

Needs a build of Assay and the environments of scripts/setup --framework. A backend that is not set up is left
out and named.
Exit code 1: a mistake or cheat survived that is not known to, a correct adapter was refused, or an edit no
longer fits.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from campaign import ROOT, OtherProgram, Results, Row, parse, parser_of, processor_minutes, run_all

sys.path.append(str(ROOT / "backends/python"))
from cheats import CLOCK_REFUSED
from edits import EDITS, VARIANTS, Edit
from mistakes import MUTANTS
from mutant_worker import register
from preloaded import Preloaded

# The backends' names of "eager" and "compiled".
MODES = {
    "numpy": {"eager": "eager"},
    "mxnet": {"eager": "eager", "compiled": "hybridize"},
    "jax": {"eager": "eager", "compiled": "jit"},
    "torch": {"eager": "eager", "compiled": "compile"},
    "tensorflow": {"eager": "eager", "compiled": "graph"},
    "onednn": {"eager": "eager", "compiled": "graph"},
}
# Three batches where a step takes long: the exam then has three steps instead of eight.
MLP = ("--workload", "mlp")
RESIDENT = ("--resident-batches", "3")
LINEAR = ("--workload", "op/linear", "--size", "m256", "--task", "train")
CELLS = {
    "train": MLP,
    "infer": (*MLP, "--task", "infer"),
    "read": (*MLP, "--task", "infer", "--batch", "2048", *RESIDENT),
    "decay": (*MLP, "--weight-decay", "0.01", "--schedule", "every:1x0.5", "--samples", "320"),
    "blocks": MLP,
    "slots": (*MLP, "--resident-batches", "16"),
    "faint": (*MLP, "--optimizer", "adamw", "--weight-decay", "0.001"),
    "loader": (*MLP, "--loader", "harness", "--samples", "3200"),
    "native": (*MLP, "--loader", "native", "--samples", "3200"),
    "augmented": (*MLP, "--loader", "native", "--samples", "3200", "--augmentation", "crop:4+flip"),
    "epochs": (*MLP, "--epochs", "2", "--samples", "320"),
    "padded": (*MLP, "--epochs", "2", "--samples", "320", "--batch", "48"),
    "long": (*MLP, "--batch", "256", *RESIDENT),
    "longer": (*MLP, "--batch", "256", *RESIDENT),
    "image": ("--workload", "lenet5", "--batch", "8", *RESIDENT),
    "dropout": ("--workload", "cifar10-cnn", "--batch", "4", *RESIDENT),
    # The edits keep the last 150 tokens of a text.
    "text": ("--workload", "lstm", "--batch", "4", "--sequence-length", "200", *RESIDENT),
    "norm": ("--workload", "resnet56", "--batch", "4", *RESIDENT),
    "decode": (
        "--workload",
        "nanogpt",
        "--task",
        "decode",
        "--batch",
        "4",
        "--sequence-length",
        "16",
        *RESIDENT,
    ),
    **dict.fromkeys(("forks", "resident"), MLP),
    **dict.fromkeys(("forks-infer", "resident-infer", "long-infer"), (*MLP, "--task", "infer")),
    "op": LINEAR,
    "long-op": LINEAR,
    "roofline": LINEAR,
    "encoder": ("--workload", "vit-tiny", "--image-size", "16", "--batch", "2", *RESIDENT),
    "masks": ("--workload", "minilm", "--batch", "4", "--sequence-length", "16", *RESIDENT),
    "causal": ("--workload", "nanogpt", "--batch", "4", "--sequence-length", "16", *RESIDENT),
}
# In deep networks a step takes up to a second, and their mistakes show in the exam, not in timed steps.
FEW = {"--steps": "3", "--warm-up-steps": "1"}
EPOCHS = {"--steps": None, "--warm-up-steps": None, "--warm-up-seconds": None}
# A cell's own options in place of those of SHORT.
OPTIONS = {
    # Half a second in blocks that are long next to the 3 ms that may lie between two of them.
    "long": {"--steps": None, "--warm-up-steps": "10", "--blocks": "10", "--block-seconds": "0.05"},
    "longer": {"--steps": None, "--warm-up-steps": "10", "--blocks": "60", "--block-seconds": "0.05"},
    **dict.fromkeys(("norm", "encoder", "masks", "causal", "decode", "text", "dropout"), FEW),
    **dict.fromkeys(("epochs", "padded"), EPOCHS),
    "roofline": {"--roofline": "true"},
    # A tenth of the steps is read.
    "read": {"--steps": "200", "--warm-up-seconds": "0.5"},
    # Two exams ask for all slots.
    "slots": {"--forks": "2"},
    "infer": {"--warm-up-steps": "8"},  # three of them are read
    **{
        cell: {"--steps": None, "--warm-up-steps": "10", "--blocks": "10"}
        for cell in ("long-infer", "long-op")
    },
    **{cell: {"--forks": "4"} for cell in ("forks", "forks-infer")},
    **{cell: {"--forks": "4", "--fork-style": "resident"} for cell in ("resident", "resident-infer")},
}
# The adapters as they are do not run these: on a busy machine the measured peak is too low for them.
ONLY_MUTANTS = {"roofline"}
# Single ops have no data set.
WITHOUT_DATA = {"op", "long-op", "roofline"}
# Backend and mode: what is compiled is kept between runs, by its content.
WARM = {("jax", "eager"), ("jax", "jit"), ("torch", "compile")}
# numpy's adapter has not every op of the others.
NUMPY_CELLS = {
    "train",
    "infer",
    "read",
    "decay",
    "slots",
    "forks",
    "forks-infer",
    "resident",
    "resident-infer",
    "loader",
    "epochs",
    "padded",
    "long",
    "longer",
    "op",
    "roofline",
}
# These have a loader of their own.
LOADER_CELLS, LOADERS = {"native", "augmented"}, {"torch", "mxnet", "tensorflow"}
SHORT = {
    "--dataset": "synthetic",
    "--steps": "24",
    "--warm-up-steps": "2",
    "--warm-up-seconds": "0",
    "--forks": "1",
    "--spare-rounds": "0",
    "--roofline": "false",
    "--threads": "1",
    "--time-limit": "1200",  # of a phase, on a machine that is busy with other work
}
SOURCES = ("mutant", "mistakes", "cheats", "edits", "variants")  # of the mutants
FOUND = ("differs_from_oracle",)  # the reason code of a wrong result
LONGEST = 3600  # seconds of a run, which has three phases


def options_of(cell: str) -> list[str]:
    """Return the options of a short run of a cell."""
    options = SHORT | OPTIONS.get(cell, {}) | ({"--dataset": None} if cell in WITHOUT_DATA else {})
    return [*CELLS[cell], *(text for pair in options.items() if pair[1] for text in pair)]


@dataclass(frozen=True)
class Mutant:
    backend: str
    mode: str  # of the backend
    name: str
    cell: str
    cheats: bool = False
    shows: tuple[str, ...] = ()  # a wrong tensor's name begins with one of these
    codes: tuple[str, ...] = FOUND  # if it is found
    survives: str = ""  # why the check cannot find it
    alone: bool = False
    edit: Edit | None = None

    @property
    def is_correct(self) -> bool:
        return not self.name or (self.edit is not None and self.edit.correct)

    @property
    def subject(self) -> str:
        return f"{self.backend} {self.mode}, {self.name or 'as it is'} ({self.cell})"

    def is_right(self, row: Row) -> bool:
        """Whether the check says of a run what it should say."""
        if self.is_correct:
            return bool(row["status"] == "ok")
        excused = self.codes == CLOCK_REFUSED and row.get("excused", False)
        if self.cheats or self.codes != FOUND:
            return row["code"] in self.codes or excused
        if row["code"] in ("loss_not_finite", "parameters_not_finite"):
            return True
        return row["code"] == "differs_from_oracle" and any(
            tensor.startswith(self.shows) for tensor in row["wrong"]
        )


@dataclass(frozen=True)
class Job:
    mutant: Mutant
    folder: Path  # of its backend
    seed: int


class Stale(Exception):
    """An edit no longer fits its file."""


def folder_of(tree: Path, backend: str) -> Path:
    return tree / ("tests/numpy_backend" if backend == "numpy" else f"backends/{backend}")


def onednn_of(program: Path) -> Path:
    """Return the folder of onednn in the build of a program."""
    return program.resolve().parent / "backends/onednn"


def preload(backend: str, scratch: Path) -> Preloaded:
    share = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "assay/environments"
    python = Path(os.environ.get("ASSAY_ENVIRONMENTS") or share) / backend / "bin/python"
    return Preloaded(python, folder_of(ROOT, backend), scratch / f"{backend}.socket")


def make_tree(tree: Path, program: Path, mutant: Mutant, preloaded: Preloaded | None) -> Path:
    """Register the backend of a mutant, with a copy of its adapter if that is edited; return its folder."""
    own = onednn_of(program) if mutant.backend == "onednn" else folder_of(ROOT, mutant.backend)
    if mutant.edit:
        folder = folder_of(tree, mutant.backend)
        shutil.copytree(own, folder, ignore=shutil.ignore_patterns("__pycache__"))
        (tree / "backends").mkdir(exist_ok=True)
        (tree / "backends/python").symlink_to(ROOT / "backends/python")
        source = folder / mutant.edit.file
        text = source.read_text()
        if text.count(mutant.edit.old) != 1:
            raise Stale(f"{mutant.subject}: '{mutant.edit.old}' stands {text.count(mutant.edit.old)} times")
        source.write_text(text.replace(mutant.edit.old, mutant.edit.new))
        if mutant.edit.correct:
            shutil.copy(ROOT / "tests/mutants/variants.py", folder)
    else:
        folder = register(tree, mutant.backend, own, mutant.name or "unchanged")
    if preloaded and not mutant.alone:
        declared = json.loads((folder / "backend.json").read_text())
        declared["command"] = preloaded.command(*declared["command"][1:])
        (folder / "backend.json").write_text(json.dumps(declared))
    return folder


def is_excused(cell: dict[str, Any]) -> bool:
    """Whether the conductor found other processes. A cheat claims them, and no time of its own."""
    forks = cell["forks"]
    return bool(forks) and all(
        "disturbed" in fork["flags"] and fork["disturbance"]["own_ns"] > 0 for fork in forks
    )


def run(program: Path, scratch: Path, job: Job) -> Row:
    mutant = job.mutant
    kept = (mutant.backend, mutant.mode) in WARM and not (mutant.edit and mutant.edit.cheats)
    warm = ("--compile-cache", "warm") if kept else ()
    with tempfile.TemporaryDirectory(prefix="run-", dir=scratch) as folder:
        report = Path(folder) / "report.json"
        variables = {"ASSAY_BACKENDS": str(job.folder)}
        if mutant.alone:
            variables["ASSAY_CACHE"] = f"{folder}/cache"
        done = subprocess.run(
            [str(program), "run", "--backend", mutant.backend, "--mode", mutant.mode,
             *options_of(mutant.cell), *warm, "--seed", str(job.seed), "--out", str(report)],
            capture_output=True, text=True, env=os.environ | variables, timeout=LONGEST,
            check=False,
        )  # fmt: skip
        if not report.exists():
            return {"status": "no report", "code": None, "reason": done.stderr[-300:], "wrong": []}
        (cell,) = json.loads(report.read_text())["cells"]
    tensors = (cell.get("equivalence") or {}).get("tensors") or {"name": [], "ratio": []}
    ratios = {
        name: float(ratio) for name, ratio in zip(tensors["name"], tensors["ratio"], strict=True) if ratio > 1
    }
    shown = [ratio for name, ratio in ratios.items() if name.startswith(mutant.shows)]
    return {"status": cell["status"], "code": cell.get("reason_code"), "reason": cell["reason"],
            "wrong": sorted(ratios, key=lambda name: -ratios[name]),
            "ratio": max(shown, default=None), "excused": is_excused(cell)}  # fmt: skip


def is_set_up(program: Path, backend: str) -> bool:
    if backend == "onednn":
        return (program.resolve().parent / "tests/mutants/onednn_bridge.so").exists()
    environment = os.environ | {"ASSAY_BACKENDS": str(folder_of(ROOT, backend))}
    listed = subprocess.run(
        [str(program), "run", "--dry-run", "--backend", backend, *options_of("train")],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    return listed.returncode == 0 and "unavailable" not in listed.stdout


def has_task(backend: str, cell: str) -> bool:
    """Whether the adapter runs the task of a cell."""
    options = CELLS[cell]
    task = options[options.index("--task") + 1] if "--task" in options else "train"
    declared = json.loads((folder_of(ROOT, backend) / "backend.json").read_text())
    return task in declared["tasks"]


def modes_of(backend: str, wanted: Collection[str]) -> list[str]:
    """Return the backend's names of these modes; next to compiled ones those that single edits ask for."""
    found = [name for kind, name in MODES[backend].items() if kind in wanted]
    own = {mode for edit in EDITS if edit.backend == backend for mode in edit.modes}
    return [*found, *sorted(own - set(MODES[backend].values()))] if "compiled" in wanted else found


def mutants_of(backend: str, mode: str, only: str, within: Collection[str]) -> list[Mutant]:
    """Return the mutants of a backend within these cells whose name contains `only`, and the adapters as they
    are in the cells of these mutants.
    """
    within = {cell for cell in within if has_task(backend, cell)}
    is_usual = mode in MODES[backend].values()  # else only the edits that ask for it
    edits = [
        edit
        for edit in (*EDITS, *VARIANTS)
        if edit.backend == backend
        and edit.cell in within
        and only in edit.name
        and (mode in edit.modes or (is_usual and not edit.modes))
    ]
    kinds = {
        name: kind
        for name, kind in MUTANTS.items()
        if only in name
        and is_usual
        and kind.cell in within
        and (backend != "numpy" or kind.cell in NUMPY_CELLS)
        and (backend != "onednn" or not kind.python_only)
        and (not kind.only_in or backend in kind.only_in)
        and (backend in LOADERS or kind.cell not in LOADER_CELLS)
    }
    cells = {kind.cell for kind in kinds.values()} | {edit.cell for edit in edits}
    cells -= ONLY_MUTANTS
    return [
        *(Mutant(backend, mode, "", cell) for cell in sorted(cells)),
        *(
            Mutant(
                backend,
                mode,
                name,
                kind.cell,
                kind.cheats,
                kind.shows,
                kind.codes,
                kind.survives or kind.survives_in.get(backend, ""),
                kind.alone,
            )
            for name, kind in kinds.items()
        ),
        *(
            Mutant(
                backend,
                mode,
                edit.name,
                edit.cell,
                edit.cheats,
                edit.shows,
                survives=edit.survives,
                edit=edit,
            )
            for edit in edits
        ),
    ]


KNOWN = "known to survive"
CORRECT = UNCHANGED, VARIANT = "adapters as they are", "correct variants"
NEAR = 10  # times the bound: such a mistake needs many seeds
Judged = dict[Mutant, dict[int, Row]]  # the runs of each mutant, by seed


def kind_of(mutant: Mutant) -> str:
    if not mutant.name:
        return UNCHANGED
    if mutant.is_correct:
        return VARIANT
    if mutant.survives:
        return KNOWN
    return "cheats" if mutant.cheats else "mistakes"


def table(judged: Judged) -> list[str]:
    """Rows of a page: for each adapter and mode, how many mutants every run finds."""
    counts: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(
        lambda: defaultdict(lambda: [0, 0, 0, 0])
    )
    for mutant, rows in judged.items():
        right = sum(mutant.is_right(row) for row in rows.values())
        count = counts[mutant.backend, mutant.mode][kind_of(mutant)]
        for i, more in enumerate((right == len(rows), 1, right, len(rows))):
            count[i] += more
    lines = [
        "| adapter | mode | mistakes always found | runs | cheats always found | runs | unchanged runs ok"
        " | correct variants ok |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (backend, mode), of in counts.items():
        mistakes, cheats, unchanged, variants = (
            of[kind] for kind in ("mistakes", "cheats", UNCHANGED, VARIANT)
        )
        lines.append(
            f"| {backend} | {mode} | {mistakes[0]} of {mistakes[1]} | {mistakes[2]} of {mistakes[3]} |"
            f" {cheats[0]} of {cheats[1]} | {cheats[2]} of {cheats[3]} | {unchanged[2]} of {unchanged[3]} |"
            f" {variants[2]} of {variants[3]} |"
        )
    return lines


def near_the_bound(judged: Judged) -> list[str]:
    """Rows of a page: the mistakes whose largest error was less than NEAR times its bound in some run."""
    lines = []
    for mutant, rows in judged.items():
        found = [row["ratio"] for row in rows.values() if mutant.is_right(row) and row.get("ratio")]
        if kind_of(mutant) == "mistakes" and found and min(found) < NEAR:
            lines.append(
                f"| {mutant.backend} | {mutant.mode} | {mutant.name} | {min(found):.1f} to {max(found):.1f} |"
                f" {len(found)} of {len(rows)} |"
            )
    if not lines:
        return []
    head = f"| adapter | mode | mistakes found at less than {NEAR} times the bound | times the bound | runs |"
    return ["", head, "|---|---|---|---|---|", *lines]


def judge(judged: Judged) -> int:
    """Print the mutants that were found and those that were not; return the exit code."""
    bad = False
    counts = {kind: [0, 0] for kind in ("mistakes", "cheats", KNOWN, *CORRECT)}
    for mutant, rows in judged.items():
        kind = kind_of(mutant)
        for seed, row in sorted(rows.items()):
            right = mutant.is_right(row)
            counts[kind][0] += right
            counts[kind][1] += 1
            bad = bad or (not right and kind != KNOWN)
            if not right:
                wrong = f"; wrong: {', '.join(row['wrong'][:3])}" if row["wrong"] else ""
                print(f"{mutant.subject}, seed {seed}: {row['status']} {row['reason']}{wrong}")
    for kind, (good, all_) in counts.items():
        print(f"{kind}: {good} of {all_} {'ok' if kind in CORRECT else 'found'}")
    return int(bad)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--backends", default=",".join(MODES), help="which adapters (default: all)")
    parser.add_argument("--modes", default="eager", help="eager, compiled or both (default: eager)")
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants whose name contains it")
    parser.add_argument(
        "--cells", default=",".join(CELLS), metavar="CELLS", help="mutants of these cells (default: all)"
    )
    parser.add_argument(
        "--seeds", type=int, default=1, help="runs of each, with the seeds 1, 2, ... (default: 1)"
    )
    parser.add_argument("--fresh", action="store_true", help="start and import a framework for each run")
    given = parse(parser)
    modes = given.modes.split(",")
    if not set(modes) <= {"eager", "compiled"}:
        parser.error(f"--modes {given.modes}: known are eager and compiled")
    unknown = set(given.backends.split(",")) - set(MODES)
    if unknown:
        parser.error(f"--backends {','.join(sorted(unknown))}: known are {', '.join(MODES)}")
    cells = set(given.cells.split(","))
    if cells - set(CELLS):
        parser.error(f"--cells {','.join(sorted(cells - set(CELLS)))}: known are {', '.join(CELLS)}")
    backends = []
    for backend in given.backends.split(","):
        if is_set_up(given.assay, backend):
            backends.append(backend)
        else:
            print(f"{backend} is not set up: left out")
    mutants = [
        mutant
        for backend in backends
        for mode in modes_of(backend, modes)
        for mutant in mutants_of(backend, mode, given.only, cells)
    ]
    with ExitStack() as stack:
        try:
            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
            results = Results(
                given.out, given.assay, [Path(__file__).with_name(f"{name}.py") for name in SOURCES]
            )
            preloaded = {
                backend: stack.enter_context(preload(backend, scratch))
                for backend in backends
                if backend != "onednn" and not given.fresh
            }
            folders = [
                make_tree(scratch / str(number), given.assay, mutant, preloaded.get(mutant.backend))
                for number, mutant in enumerate(mutants)
            ]
        except (Stale, OtherProgram) as error:
            print(error, file=sys.stderr)
            return 1
        jobs = {
            f"{mutant.subject}, seed {seed}": Job(mutant, folder, seed)
            for seed in range(1, given.seeds + 1)
            for mutant, folder in zip(mutants, folders, strict=True)
        }
        run_all(jobs.items(), partial(run, given.assay, scratch), results, given.side_by_side)
    judged: Judged = defaultdict(dict)
    for key, job in jobs.items():
        judged[job.mutant][job.seed] = results.rows[key]
    if given.markdown:
        given.markdown.write_text("\n".join(table(judged) + near_the_bound(judged)) + "\n")
    print(f"{len(jobs)} runs; {processor_minutes():.1f} minutes of processor time", file=sys.stderr)
    return judge(judged)


if __name__ == "__main__":
    sys.exit(main())
