"""Wrong adapters on purpose: tests/mutants. The long campaign over all frameworks is scripts/lab/mutants."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest
from campaign import Results, Row, run_all, shares
from edits import EDITS, VARIANTS, Edit
from false_alarms import Job, alarms, in_order, parts_of, table
from mistakes import MUTANTS, Mutant
from program import PROGRAM
from run import Mutant as Run
from run import folder_of, is_excused, mutants_of, near_the_bound
from worker_under_test import ROOT


@pytest.mark.parametrize("edit", [*EDITS, *VARIANTS], ids=lambda edit: f"{edit.backend}: {edit.name}")
def test_every_edit_fits_its_file(edit: Edit) -> None:
    source = (folder_of(ROOT, edit.backend) / edit.file).read_text()
    assert source.count(edit.old) == 1
    assert edit.old != edit.new
    compile(source.replace(edit.old, edit.new), edit.file, "exec")


@pytest.mark.parametrize("kind", MUTANTS.values(), ids=lambda kind: kind.__name__)
def test_every_mutant_says_what_is_wrong(kind: type[Mutant]) -> None:
    assert kind.__doc__ and kind.__doc__ != Mutant.__doc__


def run_mutants(*options: str) -> str:
    """Run scripts/lab/mutants, which must succeed; what it printed."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests/mutants/run.py"), "--assay", str(PROGRAM), *options],
        capture_output=True, text=True, env=dict(os.environ), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    return done.stdout


@pytest.mark.nightly
@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_check_finds_every_mistake_of_the_plain_adapter() -> None:
    found = run_mutants("--backends", "numpy")
    if "not set up" not in found:
        assert "mistakes: 72 of 72 found" in found
        assert "cheats: 43 of 43 found" in found
        assert "adapters as they are: 15 of 15 ok" in found


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_check_finds_mistakes_of_the_plain_adapter() -> None:
    found = run_mutants("--backends", "numpy", "--only", "Skips")
    if "not set up" not in found:
        assert "mistakes: 1 of 1 found" in found
        assert "cheats: 5 of 5 found" in found
        assert "adapters as they are: 3 of 3 ok" in found


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_another_backend_evaluates_from_the_state_that_a_run_left() -> None:
    found = run_mutants("--backends", "numpy", "--only", "EvaluatesTheBatchBefore")
    if "not set up" not in found:
        assert "mistakes: 1 of 1 found" in found
        assert "adapters as they are: 1 of 1 ok" in found


def test_the_check_finds_mistakes_in_front_of_onednn() -> None:
    bridge = PROGRAM.parent / "tests/mutants/onednn_bridge.so"
    if not bridge.exists():
        pytest.skip(f"{bridge} is not built")
    found = run_mutants("--backends", "onednn", "--modes", "compiled", "--only", "Skips")
    assert "mistakes: 1 of 1 found" in found
    assert "cheats: 3 of 3 found" in found


@pytest.mark.parametrize(
    ("code", "wrong", "found"),
    [
        ("differs_from_oracle", ["last/loss"], True),
        ("differs_from_oracle", ["draws/mask"], False),
        ("loss_not_finite", [], True),
        ("worker_failed", [], False),
        (None, [], False),
    ],
)
def test_a_mistake_is_found_only_for_the_right_reason(
    code: str | None, wrong: list[str], found: bool
) -> None:
    mutant = Run("torch", "eager", "SkipsEveryFourthUpdate", "train", shows=("last/",))
    assert mutant.is_right({"status": "failed", "code": code, "wrong": wrong}) == found


def test_a_campaign_of_some_cells_has_their_mutants_and_the_unchanged_adapter() -> None:
    mutants = mutants_of("torch", "eager", "", {"masks", "long"})
    assert [(mutant.name, mutant.cell) for mutant in mutants if mutant.edit or not mutant.name] == [
        ("", "long"),
        ("", "masks"),
        ("the padding mask is off by one", "masks"),
    ]
    assert {mutant.cell for mutant in mutants} == {"masks", "long"}
    assert "ShortensItsBlocks" in {mutant.name for mutant in mutants}


def test_the_page_lists_mistakes_that_were_found_near_the_bound() -> None:
    def found(*ratios: float | None) -> dict[int, Row]:
        rows: dict[int, Row] = {}
        for seed, ratio in enumerate(ratios, 1):
            rows[seed] = {"status": "wrong_result", "code": "differs_from_oracle", "wrong": ["last/loss"]}
            rows[seed]["ratio"] = ratio
        return rows

    near, far, missed = (Run("torch", "eager", name, "train", shows=("last/",)) for name in ("A", "B", "C"))
    ok: dict[int, Row] = {1: {"status": "ok", "code": None, "wrong": [], "ratio": None}}
    assert near_the_bound({near: found(25.0, 2.04), far: found(10.0), missed: ok})[3:] == [
        "| torch | eager | A | 2.0 to 25.0 | 2 of 2 |"
    ]
    assert near_the_bound({far: found(10.0), missed: ok}) == []


@pytest.mark.parametrize(
    ("code", "found"), [("clock_refused", True), ("worker_failed", False), (None, False)]
)
def test_a_cheat_is_found_by_its_reason_code(code: str | None, found: bool) -> None:
    cheat = Run("torch", "eager", "ShortensItsBlocks", "long", cheats=True, codes=("clock_refused",))
    assert cheat.is_right({"status": "failed", "code": code, "wrong": ["last/loss"]}) == found


def test_a_cheat_with_the_clock_may_be_excused_by_the_conductor_only() -> None:
    def fork(own_ns: int, *flags: str) -> Row:
        return {"flags": [*flags], "disturbance": {"own_ns": own_ns}}

    assert is_excused({"forks": [fork(5, "disturbed")]})
    assert not is_excused({"forks": [fork(0, "disturbed")]}), "its own word"
    assert not is_excused({"forks": [fork(5, "disturbed"), fork(5)]})
    assert not is_excused({"forks": []})
    row = {"status": "ok", "code": None, "wrong": [], "excused": True}
    cheat = Run("torch", "eager", "ClaimsOthers", "long", cheats=True, codes=("clock_refused",))
    assert cheat.is_right(row)
    assert not cheat.is_right(row | {"excused": False})
    assert not replace(cheat, codes=("differs_from_oracle", "clock_refused")).is_right(row)


def test_the_page_counts_the_mutants_and_names_the_cheats_that_pass() -> None:
    page = (ROOT / "docs/explanation/not-proven.md").read_text()
    for_onednn = sum(not kind.python_only for kind in MUTANTS.values())
    for words in (
        f"the {len(MUTANTS)} mistakes and cheats",
        f"{for_onednn} of them",
        f"the {len(EDITS)} edits",
    ):
        assert words in page
    passing = {name for name, kind in MUTANTS.items() if kind.survives or kind.survives_in}
    passing |= {edit.name for edit in EDITS if edit.survives and edit.cheats}
    listed = page.partition("These mistakes and cheats are known to pass:")[2]
    assert {name for name in passing if name not in listed} == set()


@pytest.fixture
def preloaded(tmp_path: Path) -> Iterator[Path]:
    """The socket of a preloaded process, whose workers are those of made_worker()."""
    folder = tmp_path / "backend"
    folder.mkdir()
    made_worker(folder, "import helper")
    (folder / "helper.py").write_text("said = 'the original'\n")
    path = tmp_path / "socket"
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "tests/mutants/preload.py"), str(path), str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout and process.stdout.readline() == "ready\n"
    yield path
    process.communicate()
    assert process.returncode == 0


def made_worker(folder: Path, text: str) -> Path:
    worker = folder / "worker.py"
    worker.write_text(f"import sys\nsys.path.insert(0, {str(folder)!r})\n{text}\n")
    return worker


def entered(socket: Path, worker: Path) -> subprocess.Popen[str]:
    enter = [sys.executable, "-I", "-S", str(ROOT / "tests/mutants/enter.py")]
    with_descriptors = ["bash", "-c", 'exec "$@" 3<>/dev/null 4<>/dev/null', "-"]  # the protocol's
    return subprocess.Popen(
        [*with_descriptors, *enter, str(socket), str(worker), str(worker.parent)],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"SAID": "outside"},
    )  # fmt: skip


def test_a_preloaded_worker_has_its_own_modules_variables_and_end(preloaded: Path, tmp_path: Path) -> None:
    for number, said in enumerate(("the first", "the second")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "helper.py").write_text(f"said = {said!r}\n")
        worker = made_worker(
            folder,
            "import os, helper\n"
            "print(helper.said, os.environ['SAID'], os.getcwd() == sys.argv[1], flush=True)\n"
            f"os._exit({number})",
        )
        process = entered(preloaded, worker)
        assert process.communicate()[0] == f"{said} outside True\n"
        assert process.returncode == number


def test_a_preloaded_worker_dies_with_the_process_that_stands_for_it(preloaded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sleeper"
    folder.mkdir()
    worker = made_worker(folder, "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)")
    process = entered(preloaded, worker)
    assert process.stdout
    sleeper = int(process.stdout.readline())
    process.kill()
    process.wait()
    until = time.monotonic() + 60
    while is_running(sleeper) and time.monotonic() < until:
        time.sleep(0.01)
    assert not is_running(sleeper)


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_end_of_a_preloaded_worker_by_a_signal_is_passed_on(preloaded: Path, tmp_path: Path) -> None:
    folder = tmp_path / "crash"
    folder.mkdir()
    worker = made_worker(folder, f"import os\nos.kill(os.getpid(), {int(signal.SIGABRT)})")
    process = entered(preloaded, worker)
    process.communicate()
    assert process.returncode == -signal.SIGABRT


def test_only_what_is_listed_is_no_false_alarm() -> None:
    results = {
        "mlp/torch/eager/train/fp32/5": {"status": "ok", "reason": "", "worst": 0.25, "exams": 5},
        "lenet5/jax/jit/train/bf16/5": {
            "status": "wrong_result",
            "reason": "last/moment/conv1.bias.v: largest error 1",
            "worst": 7.0,
            "exams": 1,
        },
        "lenet5/jax/eager/train/bf16/5": {
            "status": "wrong_result",
            "reason": "last/moment/fc1.bias.v: largest error 1",
            "worst": 7.0,
            "exams": 1,
        },
        "lenet5/torch/freeze/train/bf16/5": {
            "status": "unsupported",
            "reason": "",
            "worst": None,
            "exams": 0,
        },
        "mlp/jax/jit/infer/fp32/5": {"status": "wrong_result", "reason": "w", "worst": 3.0, "exams": 2},
        "mlp/mxnet/eager/infer/fp32/5": {"status": "no report", "reason": "gone", "worst": None, "exams": 0},
    }
    assert [line.partition(":")[0] for line in alarms(results)] == [
        "lenet5/jax/eager/train/bf16/5",
        "mlp/jax/jit/infer/fp32/5",
        "mlp/mxnet/eager/infer/fp32/5",
    ]
    assert table(results) == [
        "| network | precision | cells | exams | refused | listed differences | torch |",
        "|---|---|---|---|---|---|---|",
        "| lenet5 | bf16 | 2 | 2 | 1 | 1 |  |",
        "| mlp | fp32 | 3 | 7 | 2 | 0 | 0.25 |",
    ]


@pytest.mark.parametrize(
    ("tensor", "listed"),
    [("encoder.layer.5.output.LayerNorm.bias", True), ("encoder.layer.4.output.LayerNorm.bias", False)],
)
def test_only_the_last_layers_may_show_the_logarithm_of_mxnet(tensor: str, listed: bool) -> None:
    row = {"status": "wrong_result", "reason": f"first/parameter/{tensor}: 1", "worst": 2.0, "exams": 1}
    assert (alarms({"minilm/mxnet/eager/train/fp32/5": row}) == []) == listed


def test_of_jobs_that_share_an_answer_of_the_oracle_one_goes_ahead() -> None:
    def job(workload: str, mode: str, task: str) -> Job:
        return Job(workload, "torch", mode, task, "fp32", 5)

    modes = [job("mlp", mode, task) for mode in ("eager", "compile") for task in ("train", "infer")]
    modes.insert(1, job("mlp", "freeze", "train"))
    other = job("cnn", "eager", "train")
    eager, freeze, infer, *compiled = modes
    later = replace(eager, first=6)
    assert in_order([later, *modes, other]) == [eager, infer, freeze, *compiled, later, other]


def test_seeds_are_taken_by_five_and_a_cell_counts_once() -> None:
    assert parts_of(12) == [(1, 5), (6, 5), (11, 2)]
    jobs = [Job("mlp", "torch", "eager", "train", "fp32", seeds, 48, first) for first, seeds in parts_of(12)]
    keys = [job.key for job in jobs]
    assert keys[:2] == ["mlp/torch/eager/train/fp32/5/48px", "mlp/torch/eager/train/fp32/5/48px/from 6"]
    ratios = (0.5, 0.25, 0.125)
    results = {
        job.key: {"status": "ok", "reason": "", "worst": ratio, "exams": job.seeds}
        for job, ratio in zip(jobs, ratios, strict=True)
    }
    assert table(results)[2:] == ["| mlp | fp32 | 1 | 12 | 0 | 0 | 0.50 |"]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_reference_raises_no_false_alarm(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests/mutants/false_alarms.py"), "--assay", str(PROGRAM),
               "--workloads", "mlp", "--backends", "reference", "--seeds", "2",
               "--out", str(tmp_path / "results.jsonl")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "0 cells were refused" in done.stdout
    assert "| mlp | fp32 | 4 | 8 | 0 | 0 |" in done.stdout, "two modes, two tasks, two exams"
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout, "finished runs are kept"


@pytest.mark.parametrize(
    ("processors", "count", "expected"),
    [
        ({0, 1}, 1, [{0, 1}]),
        ({4, 5}, 2, [{4}, {5}]),
        ({0, 1, 2, 3, 4}, 2, [{0, 2, 4}, {1, 3}]),
        ({0, 1}, 3, [{0}, {1}, {0}]),
    ],
)
def test_runs_side_by_side_share_the_processors(
    processors: set[int], count: int, expected: list[set[int]]
) -> None:
    assert shares(processors, count) == expected


def test_what_a_run_starts_stays_on_the_processors_of_the_run(tmp_path: Path) -> None:
    print_own = [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"]
    both_run = Barrier(2)

    def run(_: int) -> Row:
        both_run.wait(timeout=60)
        shown = subprocess.run(print_own, capture_output=True, text=True, check=True).stdout
        return {"processors": [int(processor) for processor in shown.split()]}

    program = tmp_path / "assay"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    allowed = os.sched_getaffinity(0)
    results = Results(None, program)
    run_all([("first", 0), ("second", 1)], run, results, 2)
    found = [sorted(results.rows[key]["processors"]) for key in ("first", "second")]
    assert sorted(found) == sorted(sorted(share) for share in shares(allowed, 2))
    assert os.sched_getaffinity(0) == allowed


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_a_made_network_is_known_by_its_name_and_its_contents(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "tests/mutants/false_alarms.py"), "--assay", str(PROGRAM),
               "--workloads", "mobile-relu6", "--backends", "reference", "--seeds", "1",
               "--modes", "graph", "--precisions", "fp32", "--tasks", "train",
               "--out", str(tmp_path / "results.jsonl")]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert "| mobile-relu6@" in done.stdout
