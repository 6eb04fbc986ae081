"""Every statistic of the program against scipy's, or against its definition if scipy has none."""

from __future__ import annotations

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


PRIOR, PRIOR_DEGREES = 0.02, 4
OF_LOCATION = math.pi / 3  # the variance of a median of Walsh averages, over that of a mean


def location(run: np.ndarray) -> float:
    """Hodges and Lehmann: the median of the Walsh averages."""
    return float(np.median([(run[i] + run[j]) / 2 for i in range(len(run)) for j in range(i, len(run))]))


def between(sessions: list[np.ndarray]) -> tuple[float, float]:
    """The variance between runs of different sessions, and its degrees of freedom."""
    if len(sessions) == 1:
        return float(np.var(sessions[0], ddof=1)), len(sessions[0]) - 1
    k, n = len(sessions), sum(len(one) for one in sessions)
    of_sessions = np.var([one.mean() for one in sessions], ddof=1)
    if n == k:
        return float(of_sessions), k - 1
    of_runs = sum(np.var(one) * len(one) for one in sessions) / (n - k)
    rest = (1 - np.mean([1 / len(one) for one in sessions])) * of_runs
    total = of_sessions + rest
    return float(total), float(total**2 / (of_sessions**2 / (k - 1) + rest**2 / (n - k)))


def within(runs: list[np.ndarray]) -> tuple[float, int]:
    degrees = sum(len(run) - 1 for run in runs)
    return sum(run.var() * len(run) for run in runs) / degrees, degrees


def with_prior(cells: list[tuple[float, float, float]], independent: float) -> tuple[float, float]:
    """The variance between runs of a cell, and its degrees of freedom.

    Of each cell: the variance of its runs, the part of it that forks explain, and its degrees of freedom.
    """
    shares = [d * (PRIOR**2 / (PRIOR**2 + explained)) ** 2 * independent for _, explained, d in cells]
    degrees = sum(shares)
    excess = sum(
        share * (total - explained) for share, (total, explained, _) in zip(shares, cells, strict=True)
    )
    weight = PRIOR_DEGREES + degrees
    variance = (PRIOR_DEGREES * PRIOR**2 + max(0.0, excess)) / weight
    seen = sum(share * total for share, (total, _, _) in zip(shares, cells, strict=True))
    noise = max(seen / degrees, variance) / variance if degrees else 1
    return variance, max(PRIOR_DEGREES, weight**2 / (PRIOR_DEGREES + degrees * noise**2))


def with_own(
    of_runs: tuple[float, float], cells: list[tuple[float, float, float]]
) -> list[tuple[float, float]]:
    """The same for each cell, with some of its own if the cells differ by more than chance."""
    ratios = np.array([total / (of_runs[0] + explained) for total, explained, _ in cells])
    expected = np.mean([1 + 2 / degrees for _, _, degrees in cells])
    excess = np.mean(ratios**2) / np.mean(ratios) ** 2 / expected - 1 - 1 / math.sqrt(len(cells))
    if excess <= 0:
        return [of_runs] * len(cells)
    weight = 2 / excess
    found = []
    for ratio, (_, explained, degrees) in zip(ratios, cells, strict=True):
        factor = max(1.0, (weight + degrees * ratio) / (weight + degrees))
        variance = factor * (of_runs[0] + explained) - explained
        found.append((variance, min(of_runs[1], weight + degrees)))
    return found


def interval(
    of_runs: tuple[float, float], of_forks: tuple[float, float], shares: tuple[float, float], p: float
) -> tuple[float, float, float]:
    """Half width, standard error, and degrees of freedom by Satterthwaite."""
    parts = (of_runs[0] * shares[0], OF_LOCATION * of_forks[0] * shares[1])
    error = math.sqrt(sum(parts))
    degrees = int(error**4 / (parts[0] ** 2 / of_runs[1] + parts[1] ** 2 / of_forks[1]))
    return float(stats.t.ppf(p, degrees)) * error, error, degrees


@pytest.mark.parametrize(("baselines", "count"), [(1, 1), (4, 1), (4, 3), (1, 6), (5, 7), (5, 9)])
def test_compare_agrees_with_a_second_implementation_of_its_model(
    tmp_path: Path, baselines: int, count: int
) -> None:
    lot = random.Random(baselines * 100 + count)
    runs = []
    for _ in range(baselines + 1):
        common = lot.lognormvariate(0, 0.03)
        runs.append(
            [
                forks(
                    lot.choice([5, 6, 7]),
                    2e-3 * common * lot.lognormvariate(0, 0.04 if c >= 7 else 0.02),
                    0.02,
                    lot.randrange(9999),
                )
                for c in range(count)
            ]
        )
    files = [write(tmp_path / f"{r}.json", cells) for r, cells in enumerate(runs)]
    comparison = told("compare", *files, "--format", "json", "--calibration", "none", "--allow", "unchecked",
                      codes=(0, 3, 6))  # fmt: skip
    values = [[logs(cell) for cell in run] for run in runs]
    places = np.array([[location(cell) for cell in run] for run in values])
    base = places[:-1].copy()
    shared = count >= 5
    if shared:
        base -= np.median(base - base.mean(axis=0), axis=1)[:, None]
    of_forks = [within([run[c] for run in values]) for c in range(count)]
    cells = []
    for c in range(count if baselines > 1 else 0):
        total, degrees = between([base[r, c : c + 1] for r in range(baselines)])
        lengths = [len(run[c]) for run in values[:-1]]
        cells.append(
            (total, OF_LOCATION * of_forks[c][0] * float(np.mean([1 / n for n in lengths])), degrees)
        )
    of_all = with_prior(cells, (count - 1) / count if shared else 1 / count)
    of_runs = with_own(of_all, cells) if shared and cells else [of_all] * count
    differences = places[-1] - base.mean(axis=0)
    shift = float(np.median(differences)) if shared else 0
    p = 0.5 + 0.5 * (1 - 0.05 / count)
    found = {cell["id"]: cell for cell in comparison["cells"]}
    for c, row in enumerate(report_of(runs[0])["cells"]):
        cell = found[row["id"]]
        inverse = sum(1 / len(run[c]) for run in values[:-1])
        shares = 1 + 1 / baselines, 1 / len(values[-1][c]) + inverse / baselines**2
        half, error, freedom = interval(of_runs[c], of_forks[c], shares, p)
        estimate = differences[c] - shift
        assert math.log(cell["ratio"]) == pytest.approx(estimate, abs=1e-9)
        assert math.log(cell["lower"]) == pytest.approx(estimate - half, abs=1e-8)
        assert math.log(cell["upper"]) == pytest.approx(estimate + half, abs=1e-8)
        visible = max(math.log(1.05), half, np.ptp(base[:, c])) + stats.t.ppf(0.8, freedom) * error
        assert cell["detectable"] == pytest.approx(math.expm1(visible), rel=1e-7)
    assert (comparison["shift"] is not None) == shared
    if shared:
        assert comparison["shift"]["ratio"] == pytest.approx(math.exp(shift), rel=1e-9)


def test_the_confidence_is_shared_among_the_cells(tmp_path: Path) -> None:
    cells = [forks(8, 2e-3, 0.02, seed) for seed in range(5)]
    report = write(tmp_path / "a.json", cells)
    comparison = told("compare", report, report, "--format", "json", "--calibration", "none", codes=(0, 6))
    assert comparison["cell_confidence"] == pytest.approx(1 - 0.05 / 5, abs=1e-12)


def test_calibrate_agrees_with_a_second_implementation_of_its_model(tmp_path: Path) -> None:
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
    of_forks = within(every)
    total, degrees = between([np.array([location(run) for run in runs]) for runs in values])
    explained = OF_LOCATION * of_forks[0] * float(np.mean([1 / len(run) for run in every]))
    of_runs = with_prior([(total, explained, degrees)], 1)
    assert (cell["sessions"], cell["runs"], cell["forks"]) == (3, 9, 4)
    assert cell["within_runs"] == pytest.approx(math.sqrt(of_forks[0]), rel=1e-9)
    assert cell["between_runs"] == pytest.approx(math.sqrt(of_runs[0]), rel=1e-7)
    for number, change in cell["visible"].items():
        n = int(number)
        half, error, freedom = interval(of_runs, (of_forks[0], 6 * (n - 1)), (1.2, 1.2 / n), 0.975)
        visible = max(math.log(1.05), half) + stats.t.ppf(0.8, freedom) * error
        assert change == pytest.approx(math.expm1(visible), rel=1e-6)


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
