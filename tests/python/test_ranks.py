"""Cells of several ranks: proven equal to one process, and a rank that fails is a row with its number."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from doc_pages import command_in
from framework import BY_NAME, ENVIRONMENTS, FRAMEWORKS, Framework, command_of
from imported_network import dropping, write_folder
from mutant_worker import HERE, register
from program import BUILD, PROGRAM
from rank_mistakes import DROPOUT_MISTAKES, NORM_MISTAKES, RANK_MISTAKES
from worker_under_test import ROOT

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
TORCH, JAX, TENSORFLOW, MXNET = (BY_NAME[name] for name in ("torch", "jax", "tensorflow", "mxnet"))
WORKERS = {
    "numpy": ROOT / "tests/numpy_backend",
    "onednn": BUILD / "backends/onednn",
    **{framework.name: framework.worker.parent for framework in FRAMEWORKS},
}
MODES = {"jax": "jit", "tensorflow": "graph", "onednn": "graph"}  # the others: eager
SHORT = {
    "workload": "mlp",
    "dataset": "synthetic",
    "warm-up-steps": "2",
    "warm-up-seconds": "0",
    "forks": "1",
    "spare-rounds": "0",
    "threads": "1",
    "ranks": "2",
    "environment": "OMP_WAIT_POLICY=passive",  # other tests run next to the ranks
}
# What is added to a command of a page.
QUICK = "--dataset synthetic --steps 8 --warm-up-steps 2 --warm-up-seconds 0 --forks 1 --spare-rounds 0"
IN_TORCH, IN_JAX, IN_TENSORFLOW, IN_MXNET = (
    pytest.param(of.name, marks=of.skip) for of in (TORCH, JAX, TENSORFLOW, MXNET)
)
ON_MPI = pytest.mark.skipif(
    not ((BUILD / "backends/collectives/assay_mpi.so").exists() and shutil.which("mpirun")),
    reason="onednn has no MPI here: scripts/setup --mpi, then build again",
)
FORKED = ["numpy", IN_TORCH, IN_JAX, IN_TENSORFLOW, IN_MXNET]
EACH: list[Any] = [*FORKED, pytest.param("onednn", marks=ON_MPI)]
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which workers may leave their numbers."""
    return tmp_path_factory.mktemp("processes")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that measures one cell of two ranks, with a mutant if one is named.

    `changes`: of its backend.json. `fresh`: start each rank as users do.
    """

    def preloaded(backend: str, mutant: str, mode: str) -> list[str]:
        if not mutant:
            return command_of(backend, WORKERS[backend] / "worker.py", mode)
        return [*command_of(backend, HERE / "mutant_worker.py", mode), str(WORKERS[backend]), mutant]

    def measured(
        backend: str,
        mutant: str = "",
        options: dict[str, str] | None = None,
        changes: dict[str, Any] | None = None,
        fresh: bool = False,
        **variables: str,
    ) -> dict[str, Any]:
        if backend != "onednn" and not (ENVIRONMENTS / backend / "bin/python").exists():
            pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
        folder = WORKERS[backend]
        if mutant or not (fresh or backend in ("numpy", "onednn")):
            if backend == "onednn" and not (BUILD / "tests/mutants/onednn_bridge.so").exists():
                pytest.skip("tests/mutants/onednn_bridge.so is not built")
            changes = changes or {}
            if not (fresh or backend == "onednn"):
                mode = (options or {}).get("mode", "eager")
                changes = {"command": preloaded(backend, mutant, mode)} | changes
            folder = register(tmp_path, backend, folder, mutant, **changes)
        environment = os.environ | {"ASSAY_BACKENDS": str(folder)}
        environment |= variables
        report = tmp_path / "report/report.json"  # its folder is read-only for workers
        report.parent.mkdir(exist_ok=True)
        given = SHORT | {"mode": MODES.get(backend, "eager"), "backend": backend, "out": str(report)}
        given |= options or {}
        given |= {} if "epochs" in given else {"steps": "24"}
        command = [str(PROGRAM), "run", *(f"--{name}={value}" for name, value in given.items())]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert report.exists(), done.stderr
        valid = subprocess.run(
            [str(PROGRAM), "validate", str(report)], capture_output=True, text=True, check=False
        )
        assert valid.returncode == 0, valid.stderr + valid.stdout
        (cell,) = json.loads(report.read_text())["cells"]
        found: dict[str, Any] = cell
        return found

    return measured


def wrong_tensors(cell: dict[str, Any]) -> list[str]:
    tensors = cell["equivalence"]["tensors"]
    return [name for name, ratio in zip(tensors["name"], tensors["ratio"], strict=True) if ratio > 1]


def living(folder: Path) -> list[str]:
    """The processes that have this folder in their environment: a cell's workers and what they started.

    Assay's own guard, which ends what assay leaves, ends a moment after assay.
    """
    end = time.monotonic() + 5
    while (found := processes_of(folder)) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def processes_of(folder: Path) -> list[str]:
    mark = f"ASSAY_PROCESSES={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append((process / "cmdline").read_text())
        except OSError:  # it has ended, or is of another user
            continue
    return found


def check_exchange(cell: dict[str, Any]) -> None:
    """Compare the metrics of the exchange with the ranks' own times."""
    (fork,) = cell["forks"]
    ranks = [rank["exchange"] for rank in fork["ranks"]]
    assert not any("reason" in rank for rank in ranks), ranks
    assert len({(rank["gradient_bytes"], rank["steps"]) for rank in ranks}) == 1

    def slowest(times: str) -> list[float]:
        return [max(of_ranks) for of_ranks in zip(*(rank[times] for rank in ranks), strict=True)]

    step, local, bare = (slowest(times) for times in ("step_seconds", "local_seconds", "bare_seconds"))
    exposed = statistics.median(a - b for a, b in zip(step, local, strict=True))
    expected = {
        "local_step_time": statistics.median(local),
        "bare_exchange_time": statistics.median(bare),
        "exposed_exchange_time": exposed,
        "exchange_share": exposed / statistics.median(step),
        "hidden_exchange_share": 1 - exposed / statistics.median(bare),
        "gradient_bytes": ranks[0]["gradient_bytes"],
    }
    assert {name: cell["metrics"][name]["value"] for name in expected} == pytest.approx(expected)
    first = ranks[0]
    timed = first["steps"] * sum(first["step_seconds"] + first["local_seconds"] + first["bare_seconds"])
    assert fork["spent"]["exchange"] > timed


def test_the_exchange_of_two_ranks_is_timed(run: Run) -> None:
    cell = run("numpy", options={"batch": "16"})
    assert cell["status"] == "ok", cell["reason"]
    check_exchange(cell)
    metrics = {name: metric["value"] for name, metric in cell["metrics"].items()}
    parameters = 784 * 128 + 128 + 128 * 10 + 10
    assert metrics["gradient_bytes"] == 4 * parameters
    # Rank 1 sends its gradients, and rank 0 sends their means.
    assert metrics["wire_bytes"] >= metrics["gradient_bytes"]
    assert cell["forks"][0]["loopback_bytes"] >= 2 * 24 * metrics["gradient_bytes"]


def test_one_rank_has_no_exchange(run: Run) -> None:
    cell = run("numpy", options={"ranks": "1"})
    assert cell["status"] == "ok", cell["reason"]
    assert "loopback_bytes" not in cell["forks"][0]
    assert cell["metrics"]["exchange_share"]["reason"] == "the cell has one rank"


def test_a_backend_that_does_not_time_its_exchange_is_not_asked(run: Run) -> None:
    cell = run("numpy", "of_ranks", changes={"times_exchange": False})
    assert cell["status"] == "ok", cell["reason"]
    assert not any("exchange" in rank for rank in cell["forks"][0]["ranks"])
    assert "was not measured" in cell["metrics"]["exchange_share"]["reason"]


@pytest.mark.parametrize("backend", FORKED)
def test_two_ranks_are_equal_to_one_process(run: Run, backend: str) -> None:
    cell = run(backend, fresh=True)
    assert cell["status"] == "ok", cell["reason"]
    check_exchange(cell)
    assert cell["equivalence"]["passed"]
    assert "/ranks=2/" in cell["id"]
    (fork,) = cell["forks"]
    assert [rank["rank"] for rank in fork["ranks"]] == [0, 1]
    first, second = (rank["blocks"] for rank in fork["ranks"])
    assert first["steps"] == second["steps"] == fork["blocks"]["steps"]
    assert first["loss"] != second["loss"], "each rank has samples of its own"
    digests = {rank["parameters_digest"] for rank in fork["ranks"]}
    assert len(digests) == 1, "equal gradients give equal bits"


@TORCH.skip
@MXNET.skip
def test_the_commands_of_the_page_on_ranks(tmp_path: Path) -> None:
    changes = {
        "assay run": f"{PROGRAM} run --out {tmp_path}/report.json {QUICK}",
        "--batch 200": "--batch 16",
    }
    for command in (
        command_in("docs/how-to/ranks.md", "assay run --workload lenet5", changes),
        command_in("docs/how-to/ranks.md", "assay check", {"assay check": f"{PROGRAM} check"}),
    ):
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    cells = json.loads((tmp_path / "report.json").read_text())["cells"]
    assert [cell["status"] for cell in cells] == ["ok", "ok"], [cell["reason"] for cell in cells]
    assert cells[1]["metrics"]["exchange_share"]["value"] is not None


def test_four_ranks_average_four_slices(run: Run) -> None:
    cell = run("numpy", options={"ranks": "4", "batch": "16"})
    assert cell["status"] == "ok", cell["reason"]
    assert len(cell["forks"][0]["ranks"]) == 4


def test_epochs_of_two_ranks_cover_the_whole_batches(run: Run) -> None:
    cell = run("numpy", options={"samples": "100", "epochs": "2"})
    assert cell["status"] == "ok", cell["reason"]
    (fork,) = cell["forks"]
    assert fork["blocks"]["steps"] == 3, "100 samples are three batches of 32"


CASES = {
    TORCH: [
        {"mode": "compile"},
        {"mode": "compile", "precision": "bf16"},
        {"workload": "lenet5", "batch": "16"},
        {"precision": "bf16", "clip-norm": "0.5"},
    ],
    JAX: [
        {"workload": "lenet5", "batch": "18", "ranks": "3"},
        {"workload": "lstm", "batch": "8", "sequence-length": "10"},
        {"precision": "bf16", "clip-norm": "0.5"},
    ],
    TENSORFLOW: [
        {"workload": "lenet5", "batch": "18", "ranks": "3", "mode": "autocluster"},
        {"workload": "lstm", "batch": "8", "sequence-length": "10"},
        {"precision": "bf16", "clip-norm": "0.5"},
        {"mode": "eager"},
    ],
    MXNET: [
        {"mode": "hybridize"},
        {"mode": "hybridize-plain"},
        {"workload": "lenet5", "batch": "16", "clip-norm": "0.5"},
        {"optimizer": "sgd", "ranks": "3", "batch": "24"},
    ],
}


def has_bf16() -> bool:
    facts = Path("/proc/cpuinfo").read_text()
    return "avx512_bf16" in facts or "amx_bf16" in facts


BF16 = pytest.mark.skipif(not has_bf16(), reason="bf16 on onednn needs AVX-512 BF16 or AMX")
ONEDNN_CASES: list[dict[str, str]] = [
    {"mode": "eager"},
    {"mode": "primitives"},
    {"workload": "lenet5", "batch": "16", "clip-norm": "0.5"},
    {"workload": "lenet5", "batch": "16", "recompute": "sqrt"},
    {"workload": "lenet5", "batch": "18", "ranks": "3"},
    {"workload": "lstm", "batch": "8", "sequence-length": "10"},
    {"workload": "resnet56", "batch": "8"},
    {"precision": "bf16"},
]


# The dearest of them, of 4 to 40 processor seconds.
AT_NIGHT = {
    "torch compile",
    "jax lenet5 18 3",
    "jax lstm 8 10",
    "tensorflow lenet5 18 3 autocluster",
    "tensorflow lstm 8 10",
    "mxnet hybridize-plain",
    "onednn lenet5 16 sqrt",
    "onednn lstm 8 10",
    "onednn resnet56 8",
}


def training_cases() -> list[Any]:
    all_marks = {of.name: [of.skip] for of in CASES} | {"onednn": [ON_MPI]}
    options_of = {of.name: cases for of, cases in CASES.items()} | {"onednn": ONEDNN_CASES}
    params = []
    for backend, cases in options_of.items():
        for options in cases:
            name = " ".join([backend, *options.values()])
            marks = [*all_marks[backend], *([pytest.mark.nightly] if name in AT_NIGHT else [])]
            if backend == "onednn" and "precision" in options:
                marks.append(BF16)
            params.append(pytest.param(backend, options, marks=marks, id=name))
    assert {param.id for param in params} >= AT_NIGHT
    return params


@pytest.mark.parametrize(("backend", "options"), training_cases())
def test_a_backend_trains_in_ranks(run: Run, backend: str, options: dict[str, str]) -> None:
    warm = {"compile-cache": "warm"} if options.get("mode") == "compile" else {}
    cell = run(backend, options=options | warm)
    assert cell["status"] == "ok", cell["reason"]
    assert cell["equivalence"]["passed"]
    check_exchange(cell)
    digests = {rank["parameters_digest"] for rank in cell["forks"][0]["ranks"]}
    assert len(digests) == 1, "all ranks get the same means, in whatever order they were added"


NORM = {"workload": "resnet56", "batch": "4", "steps": "4"}


@TORCH.skip
def test_batch_norm_has_the_statistics_of_each_rank(run: Run) -> None:
    cell = run("torch", "of_ranks", NORM)
    assert cell["status"] == "ok", cell["reason"]
    assert cell["equivalence"]["passed"]
    assert "last/running/" in " ".join(cell["equivalence"]["tensors"]["name"])
    digests = {rank["parameters_digest"] for rank in cell["forks"][0]["ranks"]}
    assert len(digests) == 1, "without the running statistics"


@TORCH.skip
@pytest.mark.nightly
@pytest.mark.parametrize("mistake", NORM_MISTAKES)
def test_a_mistake_in_batch_norm_is_a_wrong_result(run: Run, mistake: str) -> None:
    cell = run("torch", mistake, NORM)
    assert cell["status"] == "wrong_result", cell["reason"]
    shows = NORM_MISTAKES[mistake].shows
    assert any(name.startswith(shows) for name in wrong_tensors(cell)), wrong_tensors(cell)


def at_night(backends: list[Any]) -> list[Any]:
    return [pytest.param(*of.values, marks=[*of.marks, pytest.mark.nightly]) for of in backends]


@pytest.fixture
def dropping_network(tmp_path: Path) -> dict[str, str]:
    """Return the options of a run of a network with a dropout."""
    return {"workload": str(write_folder(tmp_path / "models/dropping", dropping())), "batch": "64"}


@pytest.mark.parametrize("backend", ["numpy", IN_TORCH, *at_night(EACH[2:5]), EACH[5]])
def test_each_rank_drops_elements_of_its_own(
    run: Run, backend: str, dropping_network: dict[str, str]
) -> None:
    cell = run(backend, options=dropping_network)
    assert cell["status"] == "ok", cell["reason"]
    judged = cell["equivalence"]["tensors"]["name"]
    assert "draws/drop.mask" in judged
    assert ("timed/loss" in judged) == (backend != "onednn"), "there it is the program that takes masks"
    assert len({rank["parameters_digest"] for rank in cell["forks"][0]["ranks"]}) == 1


@TORCH.skip
@pytest.mark.nightly
@pytest.mark.parametrize("options", [{"mode": "compile"}, {"ranks": "4"}], ids=["compile", "four"])
def test_ranks_drop_elements_of_images(run: Run, options: dict[str, str]) -> None:
    cell = run("torch", options={"workload": "cifar10-cnn", "batch": "16", "steps": "4"} | options)
    assert cell["status"] == "ok", cell["reason"]
    assert "draws/dropout1.mask" in cell["equivalence"]["tensors"]["name"]


def test_a_worker_of_mistakes_in_dropout_is_right_without_one(
    run: Run, dropping_network: dict[str, str]
) -> None:
    cell = run("numpy", "of_ranks", dropping_network)
    assert cell["status"] == "ok", cell["reason"]


@pytest.mark.parametrize("mistake", DROPOUT_MISTAKES)
@pytest.mark.parametrize("backend", ["numpy", *at_night(FORKED[1:])])
def test_a_mistake_of_ranks_in_dropout_is_a_wrong_result(
    run: Run, backend: str, mistake: str, dropping_network: dict[str, str]
) -> None:
    cell = run(backend, mistake, dropping_network)
    assert cell["status"] == "wrong_result", cell["reason"]
    shows = DROPOUT_MISTAKES[mistake].shows
    assert any(name.startswith(shows) for name in wrong_tensors(cell)), wrong_tensors(cell)


def of_backends(mistakes: list[str]) -> list[Any]:
    """Each mistake on numpy and on one other backend, all of them in turn; at night on all."""
    others = EACH[1:]
    cases = [pytest.param(mistake, "numpy", id=f"{mistake}-numpy") for mistake in mistakes]
    for place, mistake in enumerate(mistakes):
        for number, backend in enumerate(others):
            (name,), marks = backend.values, list(backend.marks)
            if number != place % len(others):
                marks.append(pytest.mark.nightly)
            cases.append(pytest.param(mistake, name, marks=marks, id=f"{mistake}-{name}"))
    return cases


@pytest.mark.parametrize(("mistake", "backend"), of_backends(list(RANK_MISTAKES)))
def test_a_mistake_of_ranks_is_a_wrong_result(run: Run, backend: str, mistake: str) -> None:
    cell = run(backend, mistake)
    assert cell["status"] == "wrong_result", cell["reason"]
    shows = RANK_MISTAKES[mistake].shows
    assert any(name.startswith(shows) for name in wrong_tensors(cell)), wrong_tensors(cell)


def test_ranks_that_trained_alone_while_they_were_timed_are_a_wrong_result(run: Run) -> None:
    cell = run("numpy", "ExchangesOnlyInTheExam")
    assert (cell["status"], cell["reason_code"]) == ("wrong_result", "ranks_differ"), cell["reason"]
    # The exam sees nothing; another backend computes other losses.
    assert all(name.startswith("replay/") for name in wrong_tensors(cell))


@pytest.mark.parametrize("backend", EACH)
def test_the_worker_of_the_mistakes_is_right_without_one(run: Run, backend: str) -> None:
    cell = run(backend, "of_ranks")
    assert cell["status"] == "ok", cell["reason"]


def test_evaluations_of_ranks_are_made_again(run: Run) -> None:
    options = {"epochs": "2", "samples": "320"}
    right = run("numpy", options=options)
    assert right["status"] == "ok", right["reason"]
    assert "evaluation/test/accuracy" in right["equivalence"]["tensors"]["name"]
    wrong = run("numpy", "EvaluatesTheBatchBefore", options)
    assert wrong["status"] == "wrong_result"
    assert any(name.startswith("evaluation/test/") for name in wrong_tensors(wrong))


@pytest.mark.parametrize("backend", EACH)
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [("crash", "crashed", "killed_by_signal"), ("exception", "failed", "worker_failed")],
)
def test_a_rank_that_fails_is_named_and_no_process_stays(
    run: Run, processes: Path, backend: str, fault: str, status: str, code: str
) -> None:
    faulty = {"ASSAY_FAULT_RANK": "1", "ASSAY_PROCESSES": str(processes)}
    cell = run(backend, fault, {"check": "false"}, fresh=True, **faulty)
    assert (cell["status"], cell["reason_code"]) == (status, code), cell["reason"]
    assert cell["reason"].startswith("rank 1: "), cell["reason"]
    assert len(list(processes.iterdir())) == 2
    assert not living(processes)


@MXNET.skip
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_rank_whose_server_dies_is_named_and_no_process_stays(run: Run, processes: Path, rank: str) -> None:
    faulty = {"ASSAY_FAULT_RANK": rank, "ASSAY_PROCESSES": str(processes)}
    cell = run("mxnet", "child", {"check": "false"}, fresh=True, **faulty)
    assert (cell["status"], cell["reason_code"]) == ("failed", "worker_exited"), cell["reason"]
    assert cell["reason"].startswith(f"rank {rank}: "), cell["reason"]
    assert "of the kvstore ended with status -9" in cell["reason"]
    assert not living(processes)


@MXNET.skip
def test_a_server_of_a_rank_that_does_not_exist_is_refused(run: Run) -> None:
    cell = run("mxnet", options={"environment": "MXNET_SERVER_RANKS=0,2"})
    assert cell["status"] == "unsupported", cell["reason"]
    assert "MXNET_SERVER_RANKS=0,2: expected ranks from 0 to 1" in cell["reason"]


@ON_MPI
def test_a_rank_on_mpi_that_hangs_ends_the_cell_at_the_time_limit(run: Run, processes: Path) -> None:
    faulty = {"ASSAY_FAULT_RANK": "1", "ASSAY_PROCESSES": str(processes)}
    options = {"check": "false", "time-limit": "5"}
    cell = run("onednn", "loop", options, **faulty)
    assert (cell["status"], cell["reason_code"]) == ("timed_out", "time_limit"), cell["reason"]
    assert len(list(processes.iterdir())) == 2
    assert not living(processes), "neither mpirun nor assay-rank nor a worker"


def test_a_rank_that_hangs_ends_the_cell_at_the_time_limit(run: Run) -> None:
    options = {"check": "false", "time-limit": "5"}
    cell = run("numpy", "loop", options, ASSAY_FAULT_RANK="1")
    assert (cell["status"], cell["reason_code"]) == ("timed_out", "time_limit"), cell["reason"]
    assert cell["reason"].startswith("ranks 0, 1: no answer during run"), "rank 0 waits for rank 1"
    uses = re.search(r"processors in use at the end: rank 0 ([0-9.]+), rank 1 ([0-9.]+)$", cell["reason"])
    assert uses, cell["reason"]
    assert float(uses[1]) < float(uses[2]), "rank 1 computes"
    waiting, looping = cell["forks"][0]["log_tail"].split("log of rank 1:")
    assert "faults.py" in looping.split("most recent call first")[1].split("\n")[1]
    assert "ranks.py" in waiting.split("most recent call first")[1].split("\n")[1]


@JAX.skip
@pytest.mark.nightly  # it waits for 35 s
def test_a_rank_of_jax_may_compile_for_longer_than_gloo_waits(run: Run) -> None:
    cell = run("jax", "compiles_late", {"check": "false"}, ASSAY_FAULT_RANK="1")
    assert cell["status"] == "ok", cell["reason"]


REFUSED: list[tuple[Framework, dict[str, str], str]] = [
    (TORCH, {"workload": "resnet56", "batch": "2"}, "batch norm"),
    (TORCH, {"task": "infer"}, "--task train"),
    (TORCH, {"loader": "native"}, "--loader harness"),
    (TORCH, {"recompute": "sqrt"}, "--recompute none"),
    (TORCH, {"device": "cuda", "mode": "cudagraph"}, "--mode eager"),
    (MXNET, {"recompute": "sqrt"}, "--recompute none"),
    (
        MXNET,
        {"workload": "lstm", "embedding-gradient": "sparse", "optimizer": "lazy_adam"},
        "--embedding-gradient dense",
    ),
    (MXNET, {"mode": "two-contexts"}, "a rank trains on one context: --mode eager"),
    (JAX, {"mode": "eager"}, "--mode jit"),
    (JAX, {"recompute": "sqrt"}, "--recompute none"),
    (TENSORFLOW, {"mode": "fit"}, "--mode graph"),
    (TENSORFLOW, {"mode": "xla"}, "--mode autocluster"),
    (TENSORFLOW, {"mode": "v1-graph"}, "--mode graph"),
    (TENSORFLOW, {"recompute": "sqrt"}, "--recompute none"),
]


@pytest.mark.parametrize(
    ("backend", "options", "words"),
    [
        pytest.param(of.name, options, words, marks=of.skip, id=" ".join([of.name, *options.values()]))
        for of, options, words in REFUSED
    ],
)
def test_what_ranks_cannot_do_is_refused_by_name(
    run: Run, backend: str, options: dict[str, str], words: str
) -> None:
    cell = run(backend, options={"batch": "8"} | options)
    assert cell["status"] == "unsupported"
    assert words in cell["reason"]
    assert not cell["forks"], "no worker was started"


MPIRUN = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed: scripts/setup --mpi")
# Starts a rank for each task or process, as the launcher of that name does.
STAND_IN = """#!/bin/sh
echo "$0 $* overlap=$SLURM_OVERLAP" > "${0%/*}/call"
case "$0" in */srun) count=$2; name=SLURM_PROCID ;; *) count=$5; name=RANK ;; esac
while [ "${1##*/}" != assay-rank ]; do shift; done
rank=0
while [ $rank -lt $count ]; do env $name=$rank "$@" & rank=$((rank + 1)); done
wait
"""


def launched(tmp_path: Path, name: str, text: str = STAND_IN) -> dict[str, str]:
    """Return the environment in which this program is found first, under the name of a launcher."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@MPIRUN
@pytest.mark.parametrize("backend", EACH)
def test_two_ranks_of_mpirun_are_equal_to_one_process(run: Run, backend: str) -> None:
    cell = run(backend, options={"launcher": "mpirun", "rendezvous": "127.0.0.2"})
    assert cell["status"] == "ok", cell["reason"]
    assert cell["equivalence"]["passed"]
    usual = "" if backend == "onednn" else "--launcher mpirun "
    assert f"{usual}--rendezvous 127.0.0.2" in cell["reproduce"]
    (fork,) = cell["forks"]
    told = [fork["settings"][name] for name in ("launcher", "nodes", "rendezvous")]
    assert told == ["mpirun", "1", "127.0.0.2"]
    assert [rank["rank"] for rank in fork["ranks"]] == [0, 1]
    assert fork["ranks"][0]["blocks"]["loss"] != fork["ranks"][1]["blocks"]["loss"]
    assert all(rank["host_peak_rss"] > 1 << 20 for rank in fork["ranks"])
    assert len({rank["parameters_digest"] for rank in fork["ranks"]}) == 1


@MPIRUN
@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [("crash", "crashed", "killed_by_signal"), ("exception", "failed", "worker_failed")],
)
def test_a_rank_of_mpirun_that_fails_is_named_and_no_process_stays(
    run: Run, processes: Path, fault: str, status: str, code: str
) -> None:
    faulty = {"ASSAY_FAULT_RANK": "1", "ASSAY_PROCESSES": str(processes)}
    cell = run("numpy", fault, {"check": "false", "launcher": "mpirun"}, **faulty)
    assert (cell["status"], cell["reason_code"]) == (status, code), cell["reason"]
    assert cell["reason"].startswith("rank 1: "), cell["reason"]
    assert fault != "crash" or "SIGSEGV" in cell["reason"]
    assert len(list(processes.iterdir())) == 2
    assert not living(processes), "neither mpirun nor assay-rank nor a worker"


@MPIRUN
def test_a_rank_of_mpirun_that_hangs_ends_the_cell_at_the_time_limit(run: Run, processes: Path) -> None:
    options = {"check": "false", "time-limit": "3", "launcher": "mpirun"}
    faulty = {"ASSAY_FAULT_RANK": "1", "ASSAY_PROCESSES": str(processes)}
    cell = run("numpy", "loop", options, **faulty)
    assert (cell["status"], cell["reason_code"]) == ("timed_out", "time_limit"), cell["reason"]
    assert not living(processes)


@TORCH.skip
def test_torchrun_of_the_backends_environment_starts_ranks(run: Run) -> None:
    cell = run("torch", options={"launcher": "torchrun"}, fresh=True)
    assert cell["status"] == "ok", cell["reason"]
    assert cell["equivalence"]["passed"]
    assert cell["forks"][0]["settings"]["launcher"] == "torchrun"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("srun", "--ntasks 2 --cpus-per-task 1 --kill-on-bad-exit=1 --mpi=none --quiet "),
        ("torchrun", "--standalone --nnodes 1 --nproc-per-node 2 --no-python --mpi=none --quiet "),
    ],
)
def test_a_launcher_starts_as_many_processes_as_ranks(
    run: Run, tmp_path: Path, name: str, arguments: str
) -> None:
    options = {"launcher": name, "launcher-arguments": "--mpi=none --quiet"}
    cell = run("numpy", options=options, **launched(tmp_path, name))
    assert cell["status"] == "ok", cell["reason"]
    assert cell["equivalence"]["passed"]
    call = (tmp_path / "programs/call").read_text().strip()
    assert f"{name} {arguments}" in call
    assert call.endswith("overlap=1" if name == "srun" else "overlap=")


def test_a_launcher_that_fails_is_quoted(run: Run, tmp_path: Path) -> None:
    told = launched(tmp_path, "mpirun", "#!/bin/sh\necho no slots are left\nexit 3\n")
    cell = run("numpy", options={"launcher": "mpirun"}, **told)
    assert (cell["status"], cell["reason_code"]) == ("failed", "launcher_failed")
    assert "mpirun exited with code 3; last line of its log: no slots are left" in cell["reason"]


@pytest.mark.parametrize(
    ("launcher", "remedy"),
    [("mpirun", "scripts/setup --mpi"), ("srun", "scripts/setup --slurm"), ("torchrun", "PyTorch")],
)
def test_a_launcher_that_is_missing_makes_the_cell_unavailable(run: Run, launcher: str, remedy: str) -> None:
    cell = run("numpy", options={"launcher": launcher}, PATH="/no/such/folder")
    assert (cell["status"], cell["reason_code"]) == ("unavailable", "launcher_missing")
    assert f"{launcher} is not in a folder of PATH; " in cell["reason"]
    assert remedy in cell["reason"]
    assert not cell["forks"], "it is known before anything is started"


def test_one_rank_needs_no_launcher(run: Run) -> None:
    cell = run("numpy", options={"launcher": "mpirun", "ranks": "1"}, PATH="/no/such/folder")
    assert cell["status"] == "ok", cell["reason"]
    assert "launcher" not in cell["forks"][0]["settings"]


def test_a_backend_may_need_a_launcher(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "needs"
    folder.mkdir()
    description = json.loads((WORKERS["numpy"] / "backend.json").read_text())
    command = ["${interpreter}", str(WORKERS["numpy"] / "worker.py")]
    own = description | {"launcher": "srun", "command": command}
    (folder / "backend.json").write_text(json.dumps(own))
    cell = run("numpy", ASSAY_BACKENDS=str(folder), **launched(tmp_path, "srun"))
    assert cell["status"] == "ok", cell["reason"]
    assert cell["forks"][0]["settings"]["launcher"] == "srun"
    cell = run("numpy", options={"launcher": "fork"}, ASSAY_BACKENDS=str(folder))
    assert (cell["status"], cell["reason_code"]) == ("unsupported", "ranks_not_supported")
    assert "use --launcher srun" in cell["reason"]


def test_torchrun_does_not_start_ranks_on_mpi(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "needs"
    folder.mkdir()
    description = json.loads((WORKERS["numpy"] / "backend.json").read_text())
    own = description | {"launcher": "mpirun", "collectives": ["mpi"]}
    (folder / "backend.json").write_text(json.dumps(own))
    cell = run("numpy", options={"launcher": "torchrun"}, ASSAY_BACKENDS=str(folder))
    assert (cell["status"], cell["reason_code"]) == ("unsupported", "ranks_not_supported")
    assert "use --launcher mpirun" in cell["reason"]
