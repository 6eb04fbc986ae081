"""scripts/lab/verify-overhead: what the framework adapters cost."""

from __future__ import annotations

import gzip
import json
import math
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from assay_overhead.cells import (
    CREATION,
    INFERENCE_MODES,
    LAYERS,
    LOADED,
    LOADERS,
    MODES,
    OPERATORS,
    OTHER_MODES,
    PRODUCTS,
    RUNTIMES,
    STUDY_MODES,
    Cell,
    cells_of,
)
from assay_overhead.measuring import Wanted, measure
from assay_overhead.pair import Conditions, Pair, Side, graph_facts, order_of
from assay_overhead.processes import Running, stat_of
from assay_overhead.results import Results
from assay_overhead.settings import differences
from assay_overhead.table import line, markdown
from assay_overhead.turns import (
    ADAPTER,
    DISTURBED,
    LOOP,
    STOLEN,
    Block,
    Ratio,
    Turn,
    flags_of,
    ratios_of,
    take_turn,
)
from assay_overhead.verdict import Verdict, interval, verdict, verdict_of
from framework import EACH, ENVIRONMENTS, Framework
from overhead_fakes import CELL, Fake
from program import PROGRAM
from scipy import stats
from worker_under_test import ROOT

EVERY_MODE = {
    mode
    for table in (MODES, INFERENCE_MODES, OTHER_MODES, STUDY_MODES)
    for modes in table.values()
    for mode in modes
}


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


# The statistics.


@pytest.mark.parametrize("count", range(6, 40))
def test_interval_is_the_narrowest_that_holds_the_median(count: int) -> None:
    ratios = [1 + i / 100 for i in range(count)]
    bounds = interval(ratios[::-1])
    assert bounds
    lower, upper, confidence = bounds
    below = ratios.index(lower)
    assert upper == ratios[count - 1 - below]
    # The median is outside if at most `below` of the ratios are on one of its sides.
    assert confidence == pytest.approx(1 - 2 * stats.binom.cdf(below, count, 0.5))
    assert confidence >= 0.95 > 1 - 2 * stats.binom.cdf(below + 1, count, 0.5)


def test_interval_needs_six_pairs() -> None:
    assert interval([1.0] * 5) is None
    assert interval([1.2, 1.0, 1.1, 0.9, 1.3, 1.4]) == (0.9, 1.4, 0.96875)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (0.99, 1.01, Verdict.WITHIN),
        (0.98, 1.02, Verdict.WITHIN),
        (0.979, 1.01, Verdict.UNDECIDED),
        (0.99, 1.021, Verdict.UNDECIDED),
        (0.90, 1.10, Verdict.UNDECIDED),
        (0.90, 0.981, Verdict.UNDECIDED),
        (1.019, 1.10, Verdict.UNDECIDED),
        (1.021, 1.10, Verdict.SLOWER),
        (0.90, 0.979, Verdict.FASTER),
    ],
)
def test_verdict_is_of_the_whole_interval(lower: float, upper: float, expected: Verdict) -> None:
    middle = [(lower + upper) / 2] * 4
    assert verdict([upper, *middle, lower]) is expected
    assert verdict([upper, *middle]) is Verdict.TOO_FEW


# What is measured.


def test_cells_are_all_that_the_frameworks_have() -> None:
    cells = cells_of()
    assert len({cell.name for cell in cells}) == len(cells)
    train = [cell for cell in cells if cell.task == "train" and cell.loader == "resident"]
    assert len(train) == 4 * 2 * 5 + 4 + 3
    infer = {(cell.framework, cell.mode) for cell in cells if cell.task == "infer"}
    assert {("torch", "freeze"), ("mxnet", "mkldnn"), ("jax", "eager"), ("tensorflow", "graph")} <= infer
    loaded = {(cell.framework, cell.network, cell.loader) for cell in cells if cell.loader != "resident"}
    assert {network for _, network, _ in loaded} == {"lenet5"}
    assert ("torch", "lenet5", "native") in loaded
    assert ("jax", "lenet5", "harness") in loaded
    assert ("jax", "lenet5", "native") not in loaded


def test_cells_are_those_that_were_asked_for() -> None:
    cells = cells_of(["tensorflow", "jax"], ["mlp", "googlenet"], ["xla"], ["train"], ["resident"])
    expected = [Cell("tensorflow", "xla", "train", name, "resident") for name in ("mlp", "googlenet")]
    assert cells == expected
    assert cells_of(["torch"], ["mlp"], ["freeze"], ["train"]) == []
    assert {cell.mode for cell in cells_of(["tensorflow"], ["op/gemm"])} == {
        "eager",
        "function",
        "tensordot",
        "layer",
    }
    assert {cell.mode for cell in cells_of(["tensorflow", "jax"], ["op/from_list"])} == {"eager", "function"}
    assert [cell.loader for cell in cells_of(["tensorflow"], ["lenet5"], ["fit-generator"])] == ["native"]


def shipped_cells() -> Iterator[dict[str, Any]]:
    """The axes of the cells of frameworks in the samples of results/claims.json."""
    studies = json.loads((ROOT / "results/claims.json").read_text())["studies"]
    for path in sorted({path for study in studies for path in study.get("samples", ())}):
        data = (ROOT / path).read_bytes()
        report = json.loads(gzip.decompress(data) if path.endswith(".gz") else data)
        yield from (cell["axes"] for cell in report["cells"] if cell["axes"]["backend"] in MODES)


def test_every_mode_of_the_samples_and_claims_can_be_measured() -> None:
    """A verdict on a framework rests on a mode of its adapter, which could be slower than its users' code."""
    operators = [*OPERATORS]
    networks = [cell for cell in cells_of(networks=[LOADED], modes=EVERY_MODE) if cell.loader != "harness"]
    measured = {(cell.framework, cell.mode, cell.task) for cell in networks}
    measured |= {(cell.framework, cell.mode, cell.network) for cell in cells_of(networks=operators)}
    shipped = {
        (axes["backend"], axes["mode"], axes["workload" if "op/" in axes["workload"] else "task"])
        for axes in shipped_cells()
    }
    assert len(shipped) > 30
    assert sorted(shipped - measured) == []
    # Rules that name modes or operators have no sample yet.
    known = {mode for _, mode, _ in measured} | {"graph", "primitives", "primitives-captured"}
    named = re.findall(r'"mode": (?:"([\w-]+)"|\[([^]]+)\])', (ROOT / "results/claims.json").read_text())
    modes = {word for one, several in named for word in (one, *re.findall(r"[\w-]+", several)) if word}
    assert sorted(modes - known - {"cudagraph", "scan"}) == [], "these are compared on a GPU only"
    claimed = {*re.findall(r'"(op/\w+)"', (ROOT / "results/claims.json").read_text())}
    assert claimed
    assert sorted(claimed - {*OPERATORS}) == []


def test_operators_of_cells_and_loops_are_the_same() -> None:
    sys.path.insert(0, str(ROOT / "scripts/lab/overhead"))
    import operators

    assert {name: one.size for name, one in operators.OPERATORS.items()} == OPERATORS
    assert {name for name, one in operators.OPERATORS.items() if one.has_layer} == {*LAYERS}
    assert {name for name, one in operators.OPERATORS.items() if one.is_created} == {*CREATION}
    assert {*operators.PRODUCTS} == {*PRODUCTS}


def published_rows() -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The rows of the tables of docs/measurements/adapters.md: the cell, the ratio and the verdict."""
    for row in (ROOT / "docs/measurements/adapters.md").read_text().splitlines():
        fields = [field.strip() for field in row.strip("|").split("|")]
        if row.startswith("|") and len(fields) > 5 and fields[-1] in [*Verdict]:
            yield tuple(fields[:5]), fields[-3], fields[-1]


def test_verdicts_of_the_page_are_those_of_its_intervals() -> None:
    last: dict[tuple[str, ...], tuple[str, float]] = {}
    for cell, ratio, found in published_rows():
        bounds = re.search(r"\[([\d.]+), ([\d.]+)\]", ratio)
        if bounds is None:
            assert found == Verdict.TOO_FEW, cell
        else:
            assert found == verdict_of(float(bounds[1]), float(bounds[2])), cell
        if cell[4] in LOADERS:  # others are `minilm`
            last[cell] = found, float(bounds[2]) if bounds else math.inf
    counts = Counter(found for found, _ in last.values())
    page = (ROOT / "docs/measurements/adapters.md").read_text()
    assert f"| {counts[Verdict.WITHIN]} | within 2 % |" in page
    assert f"| {counts[Verdict.FASTER]} | faster |" in page
    below = sum(upper <= 1.02 for found, upper in last.values() if found == Verdict.UNDECIDED)
    assert f"| {counts[Verdict.UNDECIDED]} | undecided; the interval of {below} of them ends below" in page
    assert counts[Verdict.SLOWER] == 0
    assert f"{sum(upper <= 1.02 for _, upper in last.values())} of the {len(last)} are shown" in page


def test_parameters_are_those_that_are_trained() -> None:
    values = [
        {"role": "input", "shape": [8, 3, 4, 4]},
        {"role": "parameter", "shape": [2, 3, 3, 3]},
        {"role": "state", "shape": [2]},
        {"role": "parameter", "shape": [2]},
    ]
    assert graph_facts({"inference": {"values": values}}) == (56, [8, 3, 4, 4])


def test_settings_are_compared_where_both_report_them() -> None:
    adapter = {"threads": "2", "onednn": "True", "OMP_NUM_THREADS": "2", "OMP_DYNAMIC": "FALSE"}
    found = differences("mxnet", adapter, {"threads": "1"}, {"OMP_DYNAMIC": "FALSE"})
    told = [(one.name, one.adapter, one.loop) for one in found]
    assert told == [("threads", "2", "1"), ("OMP_NUM_THREADS", "2", "not set")]
    assert found[0].remark
    assert differences("mxnet", {"threads": "2"}, {"threads": "2"}, {}) == []


# The turns.


def blocks(*spans: tuple[int, int]) -> list[Block]:
    return [Block(begin, end, 2) for begin, end in spans]


def test_a_turn_counts_the_blocks_within_it_after_the_first() -> None:
    turns = [Turn(ADAPTER, 0, 100), Turn(LOOP, 100, 200)]
    adapter = blocks((0, 90), (10, 14), (20, 26), (90, 110), (150, 160))
    loop = blocks((99, 120), (120, 130), (130, 132), (140, 142), (150, 152), (190, 201))
    (ratio,) = ratios_of(turns, {ADAPTER: adapter, LOOP: loop})
    assert ratio.adapter_seconds == pytest.approx(2.5e-9)  # of steps of 2 and of 3 ns
    assert ratio.loop_seconds == pytest.approx(1e-9)
    assert ratio.value == pytest.approx(2.5)


def test_a_turn_with_too_few_blocks_makes_no_ratio() -> None:
    turns = [Turn(ADAPTER, 0, 100), Turn(LOOP, 100, 200), Turn(ADAPTER, 200, 300), Turn(LOOP, 300, 400)]
    warming_up = blocks((150, 160), (210, 220), (220, 230), (230, 240))
    loop = blocks(*((begin, begin + 10) for begin in (110, 120, 130, 310, 320, 330)))
    assert len(ratios_of(turns, {ADAPTER: warming_up, LOOP: loop})) == 1
    assert ratios_of(turns[:3], {ADAPTER: warming_up, LOOP: loop}) == []
    assert ratios_of([], {ADAPTER: warming_up, LOOP: loop}) == []


def test_a_hypervisor_disturbs_turns_where_it_took_from_both() -> None:
    def turns(adapter: tuple[str, ...], loop: tuple[str, ...]) -> list[Turn]:
        return [Turn(ADAPTER, 0, 1, adapter), Turn(LOOP, 1, 2, loop)]

    assert flags_of(turns((STOLEN,), ())) == ()
    assert flags_of(turns((STOLEN,), (STOLEN,))) == (STOLEN,)
    assert flags_of(turns((STOLEN,), (DISTURBED,))) == (DISTURBED,)


PARENT_AND_CHILD = """
import os, sys, time
if os.fork() == 0:
    sys.stdout = open(sys.argv[1], "a", buffering=1)
print(os.getpid(), flush=True)
while True:
    print(time.monotonic_ns(), flush=True)
    time.sleep(0.002)
"""


def test_a_side_whose_turn_it_is_not_does_not_run(tmp_path: Path) -> None:
    files = [tmp_path / "parent", tmp_path / "child"]
    with files[0].open("wb") as out:
        running = Running([sys.executable, "-c", PARENT_AND_CHILD, files[1]], os.environ, out, out)
    try:
        while not all(file.exists() and file.read_text().count("\n") > 2 for file in files):
            time.sleep(0.01)
        running.stop()
        time.sleep(0.05)
        first = [file.read_text().count("\n") for file in files]
        turn = take_turn(LOOP, running, 0.2)
        written = [file.read_text().splitlines() for file in files]
        time.sleep(0.05)
        assert [file.read_text().splitlines() for file in files] == written
        for before, lines in zip(first, written, strict=True):
            during = [int(line) for line in lines[before + 1 :]]
            assert turn.begin_ns <= during[0]
    finally:
        running.end()
    for file in files:
        pid = int(file.read_text().splitlines()[0])
        limit = time.monotonic() + 60  # a killed process ends in its own time
        while (fields := stat_of(pid)) and fields[0] != "Z":
            assert time.monotonic() < limit
            time.sleep(0.01)


# The pairs, with programs that measure what a plan says.


def test_order_of_a_pair_alternates(fake: Fake) -> None:
    assert [order_of(i)[0] for i in range(4)] == [ADAPTER, LOOP, ADAPTER, LOOP]
    assert fake.verify("--pairs", 3).returncode == 0
    assert sorted(fake.log) == 3 * ["adapter"] + 3 * ["loop"]
    assert [pair["first"] for pair in fake.cell()["pairs"]] == ["adapter", "loop", "adapter"]


def test_the_loop_warms_up_after_the_adapter_has_compiled(fake: Fake) -> None:
    fake.plan(compiles=0.5, warm_up=0.2)
    fake.verify("--pairs", 1)
    warm, compiled = (int((fake.folder / name).read_text()) for name in ("loop-warm", "adapter-compiled"))
    assert warm > compiled


@pytest.mark.parametrize(
    ("seconds", "shown", "code", "expected"),
    [
        (1.01e-3, "1.01 ms", 0, "within"),
        (1.05e-3, "1.05 ms", 1, "slower"),
        (0.9e-3, "900 us", 0, "faster"),
    ],
)
def test_verdict_decides_the_exit_code(
    fake: Fake, seconds: float, shown: str, code: int, expected: str
) -> None:
    fake.plan(adapter=[seconds])
    done = fake.verify("--pairs", 4)
    assert done.returncode == code, done.stderr
    assert f"of 4  {expected}" in done.stdout
    assert f"1 {expected}" in done.stdout.splitlines()[-1]
    for ratios in fake.ratios():
        assert ratios == pytest.approx([seconds / 1e-3] * len(ratios))
    assert fake.cell()["parameters"] == 60
    assert f"| torch | eager | train | mlp | resident | {shown} |" in fake.markdown.read_text()
    assert "| torch | threads | 2 | 4 |" in fake.markdown.read_text()


CELL_OF_MLP = Cell("torch", "eager", "train", "mlp", "resident")


def measured_by(plan: list[list[tuple[str, ...]]], retries: int, **options: bool) -> tuple[bool, Results]:
    """Measure two pairs of four turns; the plan has the flags of each ratio of each pair."""
    sides = {side: Side([], 60, [32], "3", {}, {}) for side in (ADAPTER, LOOP)}
    pairs = iter(Pair(sides, [Ratio(1.5, 1.0, flags) for flags in ratios]) for ratios in plan)
    results = Results(None, {}, Conditions())
    wanted = Wanted(Conditions(turns=4), 2, retries, **options)
    return measure(CELL_OF_MLP, results, wanted, lambda *_: next(pairs)), results


def test_pairs_with_too_few_undisturbed_turns_are_made_again() -> None:
    clean, busy = (), (DISTURBED,)
    whole, results = measured_by([[clean, clean, busy, busy], [clean, busy, busy, busy], [clean] * 4], 1)
    assert whole
    assert results.cell(CELL_OF_MLP)["made_again"] == 1
    assert results.ratios(CELL_OF_MLP) == [1.5] * 6


def test_a_cell_that_stays_disturbed_is_given_up() -> None:
    whole, results = measured_by([[(DISTURBED,)] * 4] * 3, 2)
    assert not whole
    assert results.cell(CELL_OF_MLP)["pairs"] == []


def test_disturbed_turns_count_when_accepted() -> None:
    whole, results = measured_by([[(DISTURBED,)] * 4] * 2, 0, accept_disturbed=True)
    assert whole
    assert len(results.ratios(CELL_OF_MLP)) == 8


def test_a_run_that_was_cut_goes_on(fake: Fake) -> None:
    fake.verify("--pairs", 1)
    fake.plan(adapter=[2e-3])
    assert fake.verify("--pairs", 2).returncode == 0
    assert [ratios[0] for ratios in fake.ratios()] == pytest.approx([1, 2])
    assert [pair["first"] for pair in fake.cell()["pairs"]] == ["adapter", "loop"]  # the order goes on, too
    fake.verify("--pairs", 2)
    assert len(fake.log) == 4
    fake.verify("--pairs", 2, "--again")
    assert [ratios[0] for ratios in fake.ratios()] == pytest.approx([2, 2])


def test_pairs_of_older_sources_are_not_continued(fake: Fake) -> None:
    fake.verify("--pairs", 1)
    kept = json.loads(fake.out.read_text())
    kept["cells"][CELL]["sources"] = "older"
    fake.out.write_text(json.dumps(kept))
    assert "of older sources" in fake.verify("--pairs", 1).stdout
    fake.plan(adapter=[2e-3])
    assert "of older sources" not in fake.verify("--pairs", 2).stdout
    assert [ratios[0] for ratios in fake.ratios()] == pytest.approx([2, 2])


def test_results_of_other_conditions_are_not_continued(fake: Fake) -> None:
    fake.verify("--pairs", 1)
    done = fake.verify("--pairs", 1, "--turn-seconds", 2)
    assert done.returncode == 2
    assert "conditions" in done.stderr
    fake.machine("another processor")
    done = fake.verify("--pairs", 1)
    assert done.returncode == 2
    assert "machine" in done.stderr
    assert len(fake.log) == 2


def test_another_network_is_not_measured(fake: Fake) -> None:
    fake.plan(bias=[11])
    done = fake.verify("--pairs", 2)
    assert done.returncode == 1
    assert "not the same work: parameters of Assay 61, of the loop 60" in done.stdout
    assert fake.cell()["pairs"] == []
    fake.plan()
    assert fake.verify("--pairs", 1).returncode == 0
    assert "error" not in fake.cell()


def test_a_fork_that_fails_is_reported(fake: Fake) -> None:
    fake.plan(status="crashed")
    done = fake.verify("--pairs", 1)
    assert done.returncode == 1
    assert "failed: assay run: crashed" in done.stdout
    assert "it broke" in done.stdout
    assert "failed: assay run: crashed" in fake.markdown.read_text()


def test_a_loop_that_fails_is_reported(fake: Fake) -> None:
    fake.plan(loop_fails=True)
    done = fake.verify("--pairs", 1)
    assert done.returncode == 1
    assert "failed: the loop failed: exit code 1: no such network" in done.stdout


def test_the_loop_gets_nothing_from_the_conductor(fake: Fake) -> None:
    fake.verify("--pairs", 1, "--loop-environment", "FOR_THE_LOOP=1", "--turn-seconds", 0.3, "--batch", 32)
    environment = json.loads((fake.folder / "loop-environment").read_text())
    mine = {name: os.environ.get(name) for name in ("TMPDIR", "OMP_NUM_THREADS", "ASSAY_ENVIRONMENTS")}
    assert {name: environment.get(name) for name in mine} == mine
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["FOR_THE_LOOP"] == "1"
    arguments = (fake.folder / "adapter-arguments").read_text()
    assert "--workload mlp --backend torch --mode eager --task train --loader resident" in arguments
    assert "--forks 1" in arguments
    assert "--blocks 18 --block-seconds 0.05" in arguments
    assert "--batch 32" in arguments
    arguments = (fake.folder / "loop-arguments").read_text()
    assert "--network mlp --mode eager --task train --loader resident" in arguments
    assert "--block-seconds 0.05" in arguments


def test_both_sides_have_the_precision_that_was_asked_for(fake: Fake) -> None:
    fake.verify("--pairs", 1, "--precision", "bf16")
    for side in ("adapter", "loop"):
        assert "--precision bf16" in (fake.folder / f"{side}-arguments").read_text()
    done = fake.verify("--pairs", 2)
    assert done.returncode == 2
    assert "conditions" in done.stderr
    done = fake.verify("--precision", "bf16", "--only", "torch,jax")
    assert done.returncode == 2
    assert "the loops of jax do not have it" in done.stderr


def test_the_loop_runs_in_the_python_that_was_named(fake: Fake) -> None:
    other = fake.folder / "other/bin/python"
    other.parent.mkdir(parents=True)
    (fake.folder / "torch/bin/python").rename(other)
    assert fake.verify("--pairs", 1).returncode == 1  # the adapter's is not there
    fake.out.unlink(missing_ok=True)
    done = fake.verify("--pairs", 1, "--loop-python", f"torch={other}")
    assert done.returncode == 0, done.stderr
    assert json.loads(fake.out.read_text())["conditions"]["loop_python"] == {"torch": str(other)}
    done = fake.verify("--pairs", 2)
    assert done.returncode == 2
    assert "conditions" in done.stderr


def test_unknown_names_are_refused(fake: Fake) -> None:
    assert fake.verify("--loop-python", "keras=/usr/bin/python3").returncode == 2
    assert fake.verify("--loop-python", "torch=/nowhere/python").returncode == 2
    assert fake.verify("--workloads", "vgg16").returncode == 2
    assert fake.verify("--modes", "hybridize").returncode == 2
    assert fake.verify("--loop-environment", "NAME").returncode == 2
    assert not (fake.folder / "log").exists()


def test_tables_show_a_cell_without_pairs() -> None:
    cell = {
        **dict.fromkeys(("framework", "mode", "task", "network", "loader"), "x"),
        "pairs": [],
        "error": "a\n|b",
    }
    assert line("x", cell | {"made_again": 0}, False).endswith("failed: a\n|b")
    assert "| failed: a /b |" in markdown([(cell, False)], [])


# The real programs.


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize("framework", EACH)
def test_measures_the_real_adapter(framework: Framework, tmp_path: Path) -> None:
    mode = "eager" if framework.name == "torch" else framework.compiled
    out = tmp_path / "out.json"
    command: list[object] = [sys.executable, ROOT / "scripts/lab/verify-overhead", "--assay", PROGRAM]
    command += [
        "--environments",
        ENVIRONMENTS,
        "--only",
        framework.name,
        "--workloads",
        "mlp",
        "--modes",
        mode,
    ]
    command += ["--tasks", "train", "--pairs", 1, "--turns", 2, "--turn-seconds", 0.3, "--warm-up-steps", 2]
    command += ["--accept-disturbed", "--without-conductor", "--out", out]
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cell = json.loads(out.read_text())["cells"][f"{framework.name}/{mode}/train/mlp/resident"]
    (pair,) = cell["pairs"]
    for turn in pair["turns"]:
        assert turn["ratio"] == pytest.approx(turn["adapter_seconds"] / turn["loop_seconds"])
        assert 0 < turn["adapter_seconds"] < 60
    assert cell["parameters"] == 101770
    assert cell["versions"][ADAPTER] == cell["versions"][LOOP]


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize(("runtime", "mode"), [(name, modes[0]) for name, modes in RUNTIMES.items()])
def test_measures_a_runtime_by_a_file(runtime: str, mode: str, tmp_path: Path) -> None:
    if not (ENVIRONMENTS / runtime / "bin/python").exists():
        pytest.skip(f"not set up: assay setup {runtime}")
    out = tmp_path / "out.json"
    command: list[object] = [sys.executable, ROOT / "scripts/lab/verify-overhead", "--assay", PROGRAM]
    command += ["--environments", ENVIRONMENTS, "--only", runtime, "--workloads", "minilm", "--batch", 1]
    command += ["--pairs", 1, "--turns", 2, "--turn-seconds", 0.3, "--warm-up-steps", 2]
    command += ["--accept-disturbed", "--without-conductor", "--out", out]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (name,) = json.loads(out.read_text())["cells"]
    assert name == f"{runtime}/{mode}/infer/minilm/resident"
