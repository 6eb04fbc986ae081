"""Every statistic of the program against scipy's, or against its definition if scipy has none."""

from __future__ import annotations

import itertools
import json
import math
import random
import statistics
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework import ENVIRONMENTS
from kept_reports import identity, report_of
from program import PROGRAM, assay, told
from report_rows import rows
from scipy import stats

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
numpy_only = pytest.mark.skipif(
    not (ENVIRONMENTS / "numpy/bin/python").exists(), reason="numpy is not set up: scripts/setup"
)


def forks(count: int, median: float, spread: float, seed: int) -> list[list[int]]:
    lot = random.Random(seed)
    return [[round(1e9 * median * lot.lognormvariate(0, spread)) for _ in range(3)] for _ in range(count)]


def logs(sample: list[list[int]]) -> np.ndarray:
    return np.log([1e-9 * statistics.median(blocks) for blocks in sample])


def write(path: Path, cells: list[list[list[int]]]) -> Path:
    report = report_of(cells)
    # A calibration is as old as its reports.
    report["run"]["start"] = report["run"]["end"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    path.write_text(json.dumps(report))
    return path


def u_distribution(m: int, n: int) -> np.ndarray:
    """P(U = u) by scipy: through p values of samples without ties that have each u."""
    return np.array([1.0]) if m * n == 0 else _counts(m, n) / math.comb(m + n, n)


def _counts(m: int, n: int) -> np.ndarray:
    counts = np.zeros(m * n + 1)
    for ranks in itertools.combinations(range(m + n), m):
        counts[sum(ranks) - m * (m - 1) // 2] += 1
    return counts


def hodges_lehmann(a: np.ndarray, b: np.ndarray, confidence: float) -> tuple[float, float, float, float]:
    """The estimate and the exact interval, by counting every arrangement of the ranks."""
    differences = np.sort(np.subtract.outer(b, a).ravel())
    cumulated = np.cumsum(u_distribution(len(a), len(b)))
    cut = int(np.searchsorted(cumulated, (1 - confidence) / 2 + 1e-12, side="right"))
    assert cut > 0
    attained = 1 - 2 * cumulated[cut - 1]
    return float(np.median(differences)), differences[cut - 1], differences[-cut], float(attained)


@pytest.mark.parametrize(("m", "n"), [(5, 5), (6, 8), (8, 8), (7, 9)])
def test_compare_gives_the_hodges_lehmann_estimate_and_its_exact_interval(
    tmp_path: Path, m: int, n: int
) -> None:
    base, new = forks(m, 2e-3, 0.03, 1), forks(n, 2.2e-3, 0.03, 2)
    comparison = told(
        "compare", write(tmp_path / "a.json", [base]), write(tmp_path / "b.json", [new]), "--format", "json",
        "--confidence", "95%", "--calibration", "none", codes=(0, 3),
    )  # fmt: skip
    (cell,) = comparison["cells"]
    estimate, lower, upper, attained = hodges_lehmann(logs(base), logs(new), 0.95)
    assert cell["ratio"] == pytest.approx(math.exp(estimate), rel=1e-12)
    assert (cell["lower"], cell["upper"]) == pytest.approx((math.exp(lower), math.exp(upper)), rel=1e-12)
    assert cell["confidence"] == pytest.approx(attained, abs=1e-12)
    # The interval and scipy's exact test say the same: a shift at its bound is just not refused.
    for shift, refused in (
        (lower - 1e-6, True),
        (lower + 1e-6, False),
        (upper - 1e-6, False),
        (upper + 1e-6, True),
    ):
        p = stats.mannwhitneyu(logs(new) - shift, logs(base), method="exact").pvalue
        assert (p <= 0.05) == refused


def test_the_confidence_is_shared_among_the_cells(tmp_path: Path) -> None:
    cells = [forks(8, 2e-3, 0.02, seed) for seed in range(5)]
    report = write(tmp_path / "a.json", cells)
    comparison = told("compare", report, report, "--format", "json", "--calibration", "none", codes=(0, 6))
    assert comparison["cell_confidence"] == pytest.approx(1 - 0.05 / 5, abs=1e-12)


def variances(runs: list[np.ndarray]) -> tuple[float, float]:
    """Within and between runs of equal length, from scipy's F."""
    within = float(np.mean([run.var(ddof=1) for run in runs]))
    f = stats.f_oneway(*runs).statistic
    return within, max(0.0, within * (f - 1) / len(runs[0]))


def test_calibrate_gives_the_variances_of_a_one_way_analysis(tmp_path: Path) -> None:
    lot = random.Random(5)
    runs = [
        [forks(6, 2e-3 * lot.lognormvariate(0, 0.05 * c), 0.02, 10 * r + c) for c in range(2)]
        for r in range(6)
    ]
    files = [write(tmp_path / f"{r}.json", cells) for r, cells in enumerate(runs)]
    calibration = told("calibrate", "--from", *files, "--out", "-")
    for c, cell in enumerate(calibration["cells"]):
        within, between = variances([logs(run[c]) for run in runs])
        assert cell["within_runs"] == pytest.approx(math.sqrt(within), rel=1e-9)
        assert cell["between_runs"] == pytest.approx(math.sqrt(between), rel=1e-9, abs=1e-12)
        p = 0.5 + 0.5 * (1 - 0.05 / len(calibration["cells"]))
        for count, change in cell["visible"].items():
            of_forks = math.pi / 3 * within / int(count)
            half = math.hypot(
                stats.norm.ppf(p) * math.sqrt(2 * of_forks), stats.t.ppf(p, 5) * math.sqrt(2 * between)
            )
            error = math.sqrt(2 * (of_forks + between))
            seen = max(math.log(1.05), half) + stats.norm.ppf(0.8) * error
            assert change == pytest.approx(math.expm1(seen), rel=1e-9)


def test_sessions_that_differ_widen_what_two_runs_differ_by(tmp_path: Path) -> None:
    lot = random.Random(8)
    lengths = [[6, 6, 6], [5, 6], [6, 4, 6, 6]]  # forks of the runs of each session
    sessions = []
    for lengths_of_one in lengths:
        middle = 2e-3 * lot.lognormvariate(0, 0.05)
        sessions.append(
            [forks(n, middle * lot.lognormvariate(0, 0.02), 0.02, lot.randrange(999)) for n in lengths_of_one]
        )
    place = tmp_path / "c.json"
    for s, runs in enumerate(sessions):
        files = [write(tmp_path / f"{s}-{r}.json", [run]) for r, run in enumerate(runs)]
        done = assay("calibrate", "--append", "--from", *files, "--out", place)
        assert done.returncode == 0, done.stderr
    (cell,) = json.loads(place.read_text())["cells"]
    values = [[logs(run) for run in runs] for runs in sessions]
    every = [run for runs in values for run in runs]
    within = sum(run.var() * len(run) for run in every) / sum(len(run) - 1 for run in every)
    means = [[run.mean() for run in runs] for runs in values]
    k, n = len(means), len(every)
    of_sessions = np.var([np.mean(one) for one in means], ddof=1)
    of_runs = sum(np.var(one) * len(one) for one in means) / (n - k)
    rest = (1 - np.mean([1 / len(one) for one in means])) * of_runs
    # of_sessions + rest is expected to be the variance of sessions, of runs, and of the mean of a run.
    between = of_sessions + rest - within * np.mean([1 / len(run) for run in every])
    degrees = (of_sessions + rest) ** 2 / (of_sessions**2 / (k - 1) + rest**2 / (n - k))
    assert (cell["sessions"], cell["runs"], cell["forks"]) == (3, 9, 4)
    assert cell["within_runs"] == pytest.approx(math.sqrt(within), rel=1e-9)
    assert between > 0
    assert cell["between_runs"] == pytest.approx(math.sqrt(between), rel=1e-9)
    assert cell["degrees"] == int(degrees)
    comparison = told(
        "compare", tmp_path / "0-0.json", tmp_path / "2-0.json", "--calibration", place, "--format", "json",
        codes=(0, 3, 6),
    )  # fmt: skip
    estimate, lower, _, _ = hodges_lehmann(logs(sessions[0][0]), logs(sessions[2][0]), 0.95)
    floor = stats.t.ppf(0.975, int(degrees)) * math.sqrt(2 * between)
    expected = math.exp(estimate - math.hypot(estimate - lower, floor))
    assert comparison["cells"][0]["lower"] == pytest.approx(expected, rel=1e-9)


def test_calibrate_counts_alarms_and_finds_the_floor_over_all_pairs_of_runs(tmp_path: Path) -> None:
    lot = random.Random(6)
    runs = [forks(8, 2e-3 * lot.lognormvariate(0, 0.1), 0.005, r) for r in range(6)]
    files = [write(tmp_path / f"{r}.json", [run]) for r, run in enumerate(runs)]
    (cell,) = told("calibrate", "--from", *files, "--out", "-")["cells"]
    alarms, changes = 0, []
    for one, other in itertools.combinations(runs, 2):
        estimate, lower, upper, _ = hodges_lehmann(logs(one), logs(other), 0.95)
        alarms += (lower > 0 and estimate >= math.log(1.05)) or (upper < 0 and estimate <= -math.log(1.05))
        changes.append(abs(estimate))
    q1, q3 = np.quantile(changes, [0.25, 0.75])
    assert (cell["comparisons"], cell["alarms"]) == (15, alarms)
    assert alarms > 0
    assert cell["floor"] == pytest.approx(math.expm1(q3 + 3 * (q3 - q1)), rel=1e-9)


def test_a_known_spread_between_runs_widens_the_interval(tmp_path: Path) -> None:
    lot = random.Random(7)
    runs = [[forks(6, 2e-3 * lot.lognormvariate(0, 0.04), 0.02, r)] for r in range(5)]
    files = [write(tmp_path / f"{r}.json", cells) for r, cells in enumerate(runs)]
    calibrated = assay("calibrate", "--from", *files, "--out", tmp_path / "c.json")
    assert calibrated.returncode == 0, calibrated.stderr
    between = json.loads((tmp_path / "c.json").read_text())["cells"][0]["between_runs"]
    assert between > 0
    (cell,) = told(
        "compare",
        files[0],
        files[1],
        "--calibration",
        tmp_path / "c.json",
        "--format",
        "json",
        codes=(0, 3, 6),
    )["cells"]
    estimate, lower, upper, _ = hodges_lehmann(logs(runs[0][0]), logs(runs[1][0]), 0.95)
    floor = stats.t.ppf(0.975, 4) * math.sqrt(2) * between
    assert cell["lower"] == pytest.approx(math.exp(estimate - math.hypot(estimate - lower, floor)), rel=1e-9)
    assert cell["upper"] == pytest.approx(math.exp(estimate + math.hypot(upper - estimate, floor)), rel=1e-9)


SHORT = (
    *("--workload", "mlp", "--dataset", "synthetic", "--samples", 256, "--backend", "numpy", "--steps", 3),
    *("--warm-up-steps", 1, "--warm-up-seconds", 0, "--check=false", "--threads", 1),
)


def run_numpy(out: Path, *arguments: object) -> list[dict[str, Any]]:
    done = assay("run", *SHORT, "--out", out, *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())["cells"]


@numpy_only
def test_calibrate_counts_each_run_and_keeps_all(tmp_path: Path) -> None:
    asked = ("calibrate", *SHORT, "--forks", 2, "--spare-rounds", 0, "--out", tmp_path / "c.json")
    # No cell has this metric: nothing is calibrated, and what was measured is kept.
    without = assay(*asked, "--runs", 2, "--metric", "test_accuracy", folder=tmp_path)
    assert without.returncode == 4
    assert (without.stderr.count("[2/2]"), without.stderr.count("[3/")) == (2, 0)
    assert "0 of 2 forks count and have test_accuracy" in without.stderr
    kept = sorted(tmp_path.glob("reports/calibrate-*/*.json"))
    assert [file.name for file in kept] == ["1.json", "2.json"]
    assert assay("validate", *kept).returncode == 0
    few = assay(*asked, "--runs", 1, "--append", folder=tmp_path)
    assert few.returncode == 2, "the first session takes two runs, which is reported before the first of them"
    assert "run 1 of 1" not in few.stderr


DROPS = {"disturbed", "uncovered", "frozen", "placement", "cpu_quota", "fewer_threads"}


def step_times(cell: dict[str, Any], undisturbed: bool = True) -> dict[int, float]:
    chosen = [fork for fork in cell["forks"] if not undisturbed or not DROPS & set(fork["flags"])]
    if not chosen:  # then all of them count
        chosen = cell["forks"]
    times = {}
    for fork in chosen:
        steps = [
            (b["end_ns"] - b["begin_ns"]) / b["steps"] for b in rows(fork["blocks"]) if b["kind"] == "timed"
        ]
        times[fork["round"]] = 1e-9 * statistics.median(steps)
    return times


@numpy_only
def test_metrics_are_medians_with_the_binomial_interval(tmp_path: Path) -> None:
    (cell,) = run_numpy(tmp_path / "r.json", "--forks", 9, "--spare-rounds", 0)
    metric, times = cell["metrics"]["step_time"], sorted(step_times(cell).values())
    assert metric["value"] == pytest.approx(float(np.median(times)), rel=1e-12)
    assert metric["n"] == len(times)
    if len(times) < 6:
        assert metric.get("lower") is None
        return
    # scipy's exact interval of the median has the same order statistics.
    interval = stats.quantile_test(times, p=0.5).confidence_interval(0.95)
    assert (metric["lower"], metric["upper"]) == pytest.approx((interval.low, interval.high), rel=1e-12)
    below = times.index(min(times, key=lambda time: abs(time - metric["lower"])))
    assert metric["confidence"] == pytest.approx(1 - 2 * stats.binom.cdf(below, len(times), 0.5), abs=1e-12)


@pytest.mark.parametrize("count", [5, 6, 9, 20, 41])
def test_ratios_are_paired_within_rounds_with_the_binomial_interval(tmp_path: Path, count: int) -> None:
    base, new = forks(count, 2e-3, 0.1, 3), forks(count, 5e-3, 0.1, 4)
    report = report_of([base, new])
    for cell, backend, kind in zip(report["cells"], ("onednn", "torch"), ("bare", "framework"), strict=True):
        cell["axes"] |= {"batch": 1, "backend": backend}
        cell["kind"] = kind
        cell["id"] = identity(cell)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(report))
    analysis = told("show", "--format", "json", path)
    assert analysis["schema"] == "assay-analysis/1"
    cell = analysis["cells"][1]
    assert (cell["base"], cell["taxed"]) == (0, True)
    pairs = zip(new, base, strict=True)
    ratios = sorted(statistics.median(a) / statistics.median(b) for a, b in pairs)
    found = cell["ratio"]
    assert (found["value"], found["n"]) == (pytest.approx(float(np.median(ratios)), rel=1e-9), count)
    if count < 6:
        assert found["lower"] is None
        return
    confidence = 0.95 if count == 6 else 0.996  # of later looks, docs/explanation/statistics.md
    interval = stats.quantile_test(ratios, p=0.5).confidence_interval(confidence)
    assert (found["lower"], found["upper"]) == pytest.approx((interval.low, interval.high), rel=1e-9)
    below = int(np.argmin(np.abs(np.array(ratios) - found["lower"])))
    assert found["confidence"] == pytest.approx(1 - 2 * stats.binom.cdf(below, count, 0.5), abs=1e-12)


def test_the_analysis_gives_the_quantiles_of_blocks_off_the_median(tmp_path: Path) -> None:
    lot = random.Random(8)
    blocks = [[round(2e6 * lot.lognormvariate(0, 0.1)) for _ in range(12)] for _ in range(3)]
    cell = told("show", "--format", "json", write(tmp_path / "r.json", [blocks]))["cells"][0]
    middle = float(np.median([np.median(fork) for fork in blocks]))
    for fork, times in zip(cell["forks"], blocks, strict=True):
        low, high = np.quantile(times, [0.1, 0.9]) / middle - 1
        assert fork["off"] == pytest.approx(np.median(times) / middle - 1, abs=1e-9)
        assert (fork["off_low"], fork["off_high"]) == pytest.approx((low, high), abs=1e-9)
    medians = [float(np.median(fork)) for fork in blocks]
    assert cell["spread"] == pytest.approx((max(medians) - min(medians)) / middle, abs=1e-9)


def signed_rank(differences: np.ndarray, confidence: float) -> tuple[float, float, float, float] | None:
    """The median of the Walsh averages and its exact interval, by counting every choice of signs."""
    n = len(differences)
    pairs = [(differences[i] + differences[j]) / 2 for i in range(n) for j in range(i, n)]
    averages = np.sort(pairs)
    counts = np.zeros(len(averages) + 1)
    counts[0] = 1
    for rank in range(1, n + 1):
        counts[rank:] += counts[:-rank].copy()
    cumulated = np.cumsum(counts / 2**n)
    cut = int(np.searchsorted(cumulated, (1 - confidence) / 2 + 1e-12, side="right"))
    if cut == 0:
        return None
    attained = 1 - 2 * cumulated[cut - 1]
    return float(np.median(averages)), averages[cut - 1], averages[-cut], float(attained)


@numpy_only
def test_ab_gives_the_signed_rank_estimate_and_exact_interval(tmp_path: Path) -> None:
    asked = ("--a", "batch=32", "--b", "batch=64", "--max-time", "15m", "--out", tmp_path / "ab")
    surely = ("--confidence", "90%", "--looks", 1)  # few rounds
    comparison = told("ab", *SHORT, *asked, *surely, "--format", "json", codes=(0, 3, 6))
    (cell,) = comparison["cells"]
    sides = [json.loads((tmp_path / "ab" / name).read_text())["cells"][0] for name in ("a.json", "b.json")]
    a, b = (step_times(side, undisturbed=False) for side in sides)
    rounds = [math.log(b[r]) - math.log(a[r]) for r in sorted(a)]
    assert sorted(a) == sorted(b)
    looked = np.array(rounds[: cell["base"]["forks"]])
    expected = signed_rank(looked, 0.9)
    assert expected
    assert math.log(cell["ratio"]) == pytest.approx(expected[0], rel=1e-9, abs=1e-12)
    assert math.log(cell["lower"]) == pytest.approx(expected[1], rel=1e-9, abs=1e-12)
    assert math.log(cell["upper"]) == pytest.approx(expected[2], rel=1e-9, abs=1e-12)
    assert cell["confidence"] == pytest.approx(expected[3], abs=1e-12)
    for shift, refused in ((expected[1] - 1e-9, True), (expected[1] + 1e-9, False)):
        assert (stats.wilcoxon(looked - shift, method="exact").pvalue <= 0.1) == refused
