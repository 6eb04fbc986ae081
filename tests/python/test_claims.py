"""scripts/claims: verdicts, the catalogue, and the page of results that follows from the samples."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable
from copy import deepcopy
from itertools import combinations
from pathlib import Path
from typing import Any

import made_report
import pytest
from assay_plots.analysis import read_study
from assay_plots.claims.catalogue import (
    CATALOGUE,
    ROOT,
    ClaimError,
    Rule,
    parse,
    read_catalogue,
    study_named,
)
from assay_plots.claims.configs import entries_of, may_hold, read_config
from assay_plots.claims.evaluate import NO_CELL, read_for
from assay_plots.claims.numbers import filled
from assay_plots.claims.output import page_rows
from assay_plots.claims.published import difference_rows, left_over, place_of, value_rows, values_of
from assay_plots.claims.results_page import command_of
from assay_plots.claims.trust import doubt_of_cell
from assay_plots.claims.verdict import (
    ABSENT,
    HOLDS,
    NO_LONGER,
    REVERSED,
    UNDECIDED,
    VERDICTS,
    Verdict,
    against_another_loop,
    decide,
    together,
)
from assay_plots.report import Cell, Item
from program import BUILD, PROGRAM

Json = dict[str, Any]
BUILT = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
SHIPPED = read_catalogue()


def rounds(value: float, n: int, least: float | None = None, greatest: float | None = None) -> Item:
    return Item(value=value, lower=None, upper=None, n=n, least=least, greatest=greatest)


def ratio(lower: float, upper: float) -> Item:
    return Item(value=(lower + upper) / 2, lower=lower, upper=upper, n=6, least=lower, greatest=upper)


# ---- verdicts


@pytest.mark.parametrize(
    ("rule", "published", "interval", "word"),
    [
        (Rule("below", (1.0,)), None, (0.6, 0.9), HOLDS),
        (Rule("below", (1.0,)), None, (1.2, 1.4), REVERSED),
        (Rule("below", (1.0,)), None, (0.9, 1.1), UNDECIDED),
        (Rule("below", (1.0,)), 0.71, (0.98, 1.02), NO_LONGER),  # alike within 5 %
        (Rule("below", (1.0,)), 0.71, (0.94, 1.02), UNDECIDED),
        (Rule("below", (1.0,)), None, (0.98, 1.02), UNDECIDED),  # of a claim without a size nothing is alike
        (Rule("below", (1.0,)), 0.98, (0.985, 1.01), UNDECIDED),  # the margin is half of the claimed effect
        (Rule("below", (1.0,)), 0.98, (0.995, 1.005), NO_LONGER),
        (Rule("above", (1.0,)), 1.0007, (0.999, 0.9995), REVERSED),
        (Rule("below", (0.997,)), None, (0.999, 1.001), NO_LONGER),
        (Rule("below", (1.0,)), None, (1.01, 1.03), REVERSED),
        (Rule("below", (0.5,)), None, (0.3, 0.4), HOLDS),
        (Rule("below", (0.5,)), None, (0.6, 0.8), NO_LONGER),
        (Rule("below", (0.5,)), None, (1.2, 1.4), REVERSED),
        (Rule("below", (0.5,)), None, (0.4, 0.6), UNDECIDED),
        (Rule("above", (1.0,)), None, (1.1, 1.3), HOLDS),
        (Rule("above", (1.0,)), None, (0.7, 0.9), REVERSED),
        (Rule("above", ()), 1.5, (1.1, 1.3), NO_LONGER),
        (Rule("above", ()), 1.5, (1.4, 1.6), UNDECIDED),
        (Rule("at_least", ()), 2.0, (2.0, 2.0), HOLDS),
        (Rule("between", (0.95, 1.05)), None, (0.97, 1.04), HOLDS),
        (Rule("between", (0.95, 1.05)), None, (0.97, 1.06), UNDECIDED),
        (Rule("between", (0.95, 1.05)), None, (1.06, 1.2), NO_LONGER),
    ],
)
def test_an_interval_decides(
    rule: Rule, published: float | None, interval: tuple[float, float], word: str
) -> None:
    assert decide(rule, published, ratio(*interval), exact=False).word == word


def test_without_an_interval_nothing_is_decided() -> None:
    few = decide(Rule("below", (1.0,)), None, rounds(0.5, 5, 0.4, 0.6), exact=False)
    assert few == Verdict(
        UNDECIDED, "an interval needs 6 rounds, there are 5 rounds, here from 0.400 to 0.600"
    )
    apart = decide(Rule("below", (1.0,)), None, rounds(0.5, 0, 0.5, 0.5), exact=False)
    assert apart == Verdict(UNDECIDED, "the two sides share no round")
    wide = decide(Rule("below", (1.0,)), None, ratio(0.9, 1.1), exact=False)
    assert wide == Verdict(UNDECIDED, "the interval of 6 rounds holds both answers")
    unpublished = decide(Rule("at_least", ()), None, ratio(1, 2), exact=False)
    assert unpublished.word == UNDECIDED


def test_counts_and_plans_need_no_interval() -> None:
    count = rounds(1.0, 3, 1.0, 1.0)
    assert decide(Rule("equal", ()), 1.0, count, exact=True).word == HOLDS
    assert decide(Rule("equal", ()), 1.0, rounds(2.0, 3), exact=True).word == NO_LONGER
    assert decide(Rule("at_least", ()), 4.0, rounds(3.0, 0), exact=True).word == NO_LONGER


def test_pairs_must_agree() -> None:
    assert together([Verdict(HOLDS), Verdict(HOLDS)]) == Verdict(HOLDS)
    mixed = together([Verdict(HOLDS), Verdict(REVERSED), Verdict(HOLDS)])
    assert mixed == Verdict(NO_LONGER, "of 3 pairs: 2 holds, 1 reversed"), "one counterexample refutes"
    waiting = together([Verdict(HOLDS), Verdict(UNDECIDED, "few"), Verdict(HOLDS)])
    assert waiting == Verdict(UNDECIDED, "of 3 pairs: 2 holds, 1 undecided")
    placed = together([Verdict(HOLDS, "", "cpu, mnist"), Verdict(HOLDS, "", "cpu, mnist")])
    assert placed.where == "cpu, mnist"
    apart = together([Verdict(HOLDS, "", "cpu, graph"), Verdict(HOLDS, "", "cpu, primitives")])
    assert apart.where == "cpu, graph; cpu, primitives"
    partly = together([Verdict(HOLDS), Verdict(ABSENT, "no GPU")])
    assert partly == Verdict(HOLDS, "1 of 2 pairs not on this machine")
    assert together([Verdict(ABSENT, "a"), Verdict(ABSENT, "b")]) == Verdict(ABSENT, "a; b")


def test_another_loop_must_give_the_same_answer() -> None:
    same = against_another_loop([Verdict(HOLDS), Verdict(HOLDS), Verdict(ABSENT)])
    assert same.word == HOLDS
    for other in (Verdict(REVERSED), Verdict(NO_LONGER), Verdict(UNDECIDED, "few")):
        found = against_another_loop([Verdict(HOLDS), other])
        assert (found.word, found.reason[:34]) == (UNDECIDED, "it depends on the partner's loop: ")
    assert against_another_loop([Verdict(UNDECIDED, "few"), Verdict(HOLDS)]) == Verdict(UNDECIDED, "few")


# ---- the catalogue

SMALL: Json = {
    "schema": "assay-claims/1",
    "studies": [
        {
            "name": "b",
            "title": "B",
            "configs": ["paltenghi-b"],
            "text": "results/studies/paltenghi-b.md",
            "figures": ["bars"],
            "claims": [
                {
                    "id": "time",
                    "claim": "MXNet is faster",
                    "cell": {"backend": "mxnet", "device": "cpu", "epochs": [5, 10]},
                    "metric": "training_time",
                    "to": {"backend": "tensorflow", "mode": "fit"},
                    "rule": {"below": 1},
                }
            ],
        }
    ],
}


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", "assay-claims/2", 'c.schema: is "assay-claims/2"; this program reads "assay-claims/1"'),
        ("studies", {}, "c.studies: should be a list, is an object"),
        ("studies.0.name", None, "c.studies[0].name: should be a text, is null"),
        ("studies.0.colour", "red", 'c.studies[0]: unknown key "colour"; known are name, title'),
        ("studies.0.configs", [], "c.studies[0].configs: names no config"),
        ("studies.0.claims.0.rule", {}, "claims[0].rule: should have one of below, above"),
        ("studies.0.claims.0.rule", {"between": [2, 1]}, "rule.between: should be two numbers, the smaller"),
        ("studies.0.claims.0.rule", {"below": True}, "rule.below: should be a number, is true or false"),
        ("studies.0.claims.0.cell", {"batch": []}, '"batch" should be a value, or a list of values'),
        ("studies.0.claims.0.config", "quickstart", '"quickstart" is not a config of this study'),
        (
            "studies.0.claims.0.over",
            "epoch_time",
            "claims[0].over: is for a ratio of two metrics of one cell",
        ),
        (
            "studies.0.claims",
            [SMALL["studies"][0]["claims"][0] | {"to": "published", "published": False}],
            'claims[0].to: is "published", and no published entry',
        ),
        ("studies.0.families", {"x": ["y"]}, 'families: "x" names the claim "y"; known are time'),
        ("studies.0.families", {}, 'families: the claim "time" must be in one family, and is in 0'),
        ("studies.0.claims.0.withdrawn", [{"start": "x"}], 'withdrawn[0]: "reason" is missing'),
        ("studies.0.claims", [{"id": "a", "claim": "b", "unmeasured": ""}], "unmeasured: should be a text"),
        (
            "studies.0.claims",
            [{"id": "a", "claim": "b", "unmeasured": "c", "metric": "step_time"}],
            'claims[0]: unknown key "metric"; known are id, claim, printed, unmeasured',
        ),
        ("studies.0.setting", {"colour": "red"}, 'setting: unknown key "colour"; known are processor'),
        ("studies.0.filters", {"x.json": "mlp"}, 'filters: unknown key "x.json"'),
        (
            "studies",
            [SMALL["studies"][0] | {"samples": ["x.json"], "unmeasured": "why"}],
            "c.studies[0].unmeasured: says why there is no sample, and there are some",
        ),
        (
            "studies.0.claims",
            [
                {
                    "id": "a",
                    "claim": "b",
                    "cell": {"mode": "fit"},
                    "metric": "step_time",
                    "rule": {"below": 1},
                    "also": [{"mode": "graph"}],
                }
            ],
            "also: names other partners of a ratio: `to` must name the first",
        ),
    ],
)
def test_a_wrong_catalogue_is_refused_by_its_place(path: str, value: Any, said: str) -> None:
    document = deepcopy(SMALL)
    at: Any = document
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[last] = value
    with pytest.raises(ClaimError) as error:
        parse(document, "c")
    assert said in str(error.value)


def test_names_are_unique(tmp_path: Path) -> None:
    twice = deepcopy(SMALL)
    twice["studies"][0]["claims"] *= 2
    with pytest.raises(ClaimError, match='two claims have the id "time"'):
        parse(twice, "c")
    broken = tmp_path / "claims.json"
    broken.write_text("{")
    with pytest.raises(ClaimError, match="not valid JSON"):
        read_catalogue(broken)
    with pytest.raises(ClaimError, match="unknown study x; known are smartia-table-4"):
        study_named(SHIPPED, "x")


def test_a_published_value_is_that_of_the_config() -> None:
    study = parse(SMALL, "c")[0]
    found = entries_of(study.claims[0], read_config("paltenghi-b"))
    assert [row.axes["epochs"] for row, _ in found] == [("5",), ("10",)]
    unlike = deepcopy(SMALL)
    unlike["studies"][0]["claims"][0]["to"] = {"backend": "torch"}
    with pytest.raises(ClaimError, match="claim time: no row of paltenghi-b with such cells"):
        entries_of(parse(unlike, "c")[0].claims[0], read_config("paltenghi-b"))
    with pytest.raises(ClaimError, match=r"no-such\.json: cannot be read"):
        read_config("no-such")


@pytest.mark.parametrize("study", SHIPPED, ids=lambda study: study.name)
def test_a_shipped_study_names_what_there_is(study: Any) -> None:
    for claim in study.claims:
        if claim.published:
            assert entries_of(claim, read_config(claim.config))
    for _, _, entry in left_over(study):
        assert entry.value is not None or entry.statement
        assert place_of(study, entry) or not study.claims
    assert (ROOT / study.text).is_file()
    for sample in study.samples:
        assert (ROOT / sample).is_file()


def test_a_row_of_ranks_is_picked_by_their_number() -> None:
    rows = [row.axes for row in read_config("mxnet-scaling").rows if row.axes["backend"] == ("mxnet",)]
    assert [axes["ranks"] for axes in rows] == [("1",), ("2", "4", "10")]
    assert all("scaling" not in axes for axes in rows)  # no axis of a cell


@pytest.mark.parametrize("study", SHIPPED, ids=lambda study: study.name)
def test_both_sides_of_a_claim_are_in_a_config(study: Any) -> None:
    rows = [row for name in study.configs for row in read_config(name).rows]
    for claim in (*study.claims, *study.comparisons):
        if claim.unmeasured:
            continue
        sides = (
            [entry.to for _, entry in entries_of(claim, read_config(claim.config))] if claim.published else []
        )
        for to in {tuple((to or {}).items()) for to in [claim.to, *sides]}:
            other = claim.cell | dict(to)
            assert any(may_hold(row, claim.cell) for row in rows), claim.id
            assert any(may_hold(row, other) for row in rows), f"{claim.id}: {dict(to)}"


def test_a_sample_is_of_a_study_and_compressed_if_it_is_large() -> None:
    files = {path for path in (ROOT / "results/samples").rglob("*") if path.is_file()}
    assert files == {ROOT / sample for study in SHIPPED for sample in study.samples}
    assert [path for path in files if path.stat().st_size > 200_000 and path.suffix != ".gz"] == []


def test_the_samples_are_small() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "results/samples").rglob("*") if path.is_file()]
    assert sum(sizes) < 10e6


def test_every_claim_is_in_the_first_table() -> None:
    for study in SHIPPED:
        assert {one for family in study.families for one in family.claims} == {c.id for c in study.claims}
    page = (ROOT / "results/README.md").read_text().split("\n## ")[0]
    lines = [line for line in page.splitlines() if line.startswith("| [")]
    own = [study for study in SHIPPED if study.samples or study.unmeasured]
    assert 18 <= len(lines) == sum(len(study.families) for study in own) + 1 <= 20
    named = [family.name for study in SHIPPED if study not in own for family in study.families]
    assert named
    assert all(name in lines[-1] for name in named)


WALL_CLOCK = {"training_time": "training_cpu_time", "step_time": "step_cpu_time"}


def test_a_table_with_a_time_has_both_clocks() -> None:
    for study in SHIPPED:
        for wall, cpu in WALL_CLOCK.items():
            assert (wall in study.columns) <= (cpu in study.columns), study.name
        rates = {"samples_per_second", "epoch_time"} & set(study.columns)
        assert not rates or set(WALL_CLOCK.values()) & set(study.columns), study.name


def test_every_config_with_something_published_is_of_a_study() -> None:
    named = {name for study in SHIPPED for name in study.configs}
    published = {path.stem for path in (ROOT / "configs").glob("*.json") if '"published"' in path.read_text()}
    assert published <= named


# Configs of studies without rows for a GPU, and why.
ON_A_CPU = {
    "mxnet-memory": "nothing is executed",
    "threads": "of threads of a CPU",
    "threads-operators": "of threads of a CPU",
    "decode-latency": "backend cuda does not decode",
    "deepbench-gemm": "it names no backend: --device cuda",
    "deepbench-conv": "it names no backend: --device cuda",
    "deepbench-lstm": "it names no backend: --device cuda",
}


def test_every_config_of_a_study_has_rows_for_a_gpu_or_a_reason() -> None:
    lacking = {
        name
        for study in SHIPPED
        for name in study.configs
        if not any("cuda" in row.axes.get("device", ()) for row in read_config(name).rows)
        or not any("cuda" in row.axes.get("backend", ()) for row in read_config(name).rows)
    }
    assert lacking == set(ON_A_CPU)


def test_every_figure_of_a_study_is_a_picture() -> None:
    pytest.importorskip("altair", reason="altair is not installed: scripts/setup")
    from assay_plots.plots import PLOTS

    assert {name for study in SHIPPED for name in study.figures} <= {plot.name for plot in PLOTS}


# ---- the program


def claims(*arguments: object, codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ASSAY_PROGRAM": str(PROGRAM)}
    done = subprocess.run(
        [str(ROOT / "scripts/claims"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=600,
    )
    assert done.returncode in codes, done.stderr
    return done


def trained(m: made_report.Maker, backend: str, mode: str, epochs: int, step: float, forks: int = 6) -> Json:
    axes = {"measure": f"epochs:{epochs}", "loader": "harness", "dataset": "mnist"}
    return m.cell(backend, mode, "framework", m.epoch_forks(step, forks, epochs), **axes)


def benchmark_b(**run: Any) -> Json:
    """Make a report of benchmark B: MXNet is faster over 5 epochs, slower over 10, missing over 15."""
    m = made_report.Maker()
    cells = [
        trained(m, "mxnet", "two-contexts", 5, 1e-3),
        trained(m, "tensorflow", "fit", 5, 2e-3),
        trained(m, "mxnet", "two-contexts", 10, 3e-3),
        trained(m, "tensorflow", "fit", 10, 2e-3),
        trained(m, "mxnet", "two-contexts", 15, 1e-3),
        made_report.unrun(trained(m, "tensorflow", "fit", 15, 1e-3), "unavailable", "no TensorFlow here"),
    ]
    return made_report.report(cells, config={"name": "paltenghi-b", "title": "x"}, **run)


def lines_of(path: Path, *arguments: object) -> list[Json]:
    lines = json.loads(claims(path, "--format", "json", *arguments).stdout)["lines"]
    assert all(line["verdict"] in VERDICTS for line in lines)
    return [line for line in lines if line["id"] == "time"]


@BUILT
def test_claims_are_decided_by_paired_ratios(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b()))
    lines = lines_of(path)
    assert [line["verdict"] for line in lines if "cpu" in line["cells"]] == [HOLDS, REVERSED, ABSENT]
    five, *_, fifteen = [line for line in lines if "cpu" in line["cells"]]
    assert five["measured"][0]["n"] == 6
    assert 0.4 < five["measured"][0]["value"] < 0.7
    assert five["published"]["statement"].startswith("MXNet is faster")
    assert five["pairs"][0]["other"].startswith("lenet5/tensorflow/cpu/fit")
    assert fifteen["reason"] == "tensorflow fit: no TensorFlow here"
    cuda = [line for line in lines if "cuda" in line["cells"]]
    assert [(line["verdict"], line["reason"]) for line in cuda] == [(ABSENT, "no report has such a cell")] * 3


@BUILT
def test_a_ratio_never_crosses_two_reports(tmp_path: Path) -> None:
    both = benchmark_b()
    paths = [tmp_path / "mxnet.json", tmp_path / "tensorflow.json"]
    for path, cells in zip(paths, (both["cells"][:1], both["cells"][1:2]), strict=True):
        path.write_text(json.dumps(both | {"cells": cells}))
    lines = json.loads(claims(*paths, "--format", "json").stdout)["lines"]
    five = next(line for line in lines if line["id"] == "time")
    assert (five["verdict"], five["measured"]) == (ABSENT, [])
    assert five["reason"].startswith("the report lacks the other side, tensorflow fit")


def decided(tmp_path: Path, change: Callable[[Json], object], **claim: Any) -> tuple[str, str]:
    """Decide "MXNet is faster" for five epochs after a change to the report."""
    report = benchmark_b() | {"rules": 3}  # so that its flags are derived
    change(report)
    path = tmp_path / "b.json"
    path.write_text(json.dumps(report))
    document = deepcopy(SMALL)
    document["studies"][0]["claims"][0] |= claim
    catalogue = tmp_path / "claims.json"
    catalogue.write_text(json.dumps(document))
    line = lines_of(path, "--catalogue", catalogue)[0]
    return line["verdict"], line["reason"]


def of_forks(report: Json, **fields: Any) -> None:
    for cell in report["cells"]:
        for fork in cell["forks"]:
            fork |= fields


@BUILT
def test_a_verdict_obeys_what_a_table_refuses_to_rank(tmp_path: Path) -> None:
    def unchecked(report: Json) -> None:
        equivalence = {"checked": False, "passed": False, "worst": 0.0, "reason": "not asked", "tensors": {}}
        report["cells"][1]["equivalence"] = equivalence

    def later(report: Json) -> None:
        session = {"start": report["run"]["start"], "commit": "abc", "dirty": False, "version": "0.1.0"}
        report["run"]["sessions"] = 2 * [session | {"boot_id": "", "variables": {}}]
        for i, cell in enumerate(report["cells"]):
            for fork in cell["forks"]:
                fork["session"] = i % 2

    assert decided(tmp_path, lambda _: None) == (HOLDS, "")
    cases = {
        "disturbed": lambda report: of_forks(report, flags=["disturbed"]),
        "profiled": lambda report: of_forks(report, flags=["profiled"]),
        "unchecked": unchecked,
        "resident": lambda report: of_forks(report, resident=True),
        "later": later,
    }
    found = {name: decided(tmp_path, change) for name, change in cases.items()}
    assert {word for word, _ in found.values()} == {UNDECIDED}, found
    reasons = {name: reason for name, (_, reason) in found.items()}
    assert "other processes used the processors" in reasons["disturbed"]
    assert "each operator was timed" in reasons["profiled"]
    assert reasons["unchecked"] == "tensorflow fit: it was not compared with the oracle"
    assert reasons["resident"].endswith("says nothing of another process; in this one: holds")


FLAGS = ("disturbed", "placement", "profiled")
TIME, MEMORY, PLAN = (
    Item(name=name, section=section, every_fork=every)
    for name, section, every in (
        ("step_time", "cells", False),
        ("host_peak_rss", "cells", True),
        ("arena_bytes", "memory_plans", False),
    )
)


@pytest.mark.parametrize("flags", [list(some) for n in range(4) for some in combinations(FLAGS, n)])
@pytest.mark.parametrize("passed", [True, False])
@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("metric", [TIME, MEMORY, PLAN], ids=lambda metric: metric.name)
def test_each_doubt_of_a_cell_counts_beside_others(
    metric: Item, exact: bool, passed: bool, flags: list[str]
) -> None:
    equivalence = Item(checked=passed, passed=passed)
    cell = Cell(
        series="mxnet", kind="framework", equivalence=equivalence, flags=flags, clean=passed and not flags
    )
    said = doubt_of_cell(cell, metric, exact)
    if metric is PLAN:
        assert said == "", "nothing was executed"
        return
    asked = [] if exact else flags if metric is TIME else [flag for flag in flags if flag == "profiled"]
    assert ("not compared with the oracle" in said) == (not passed)
    words = {"disturbed": "other processes", "placement": "placement", "profiled": "each operator was timed"}
    assert {flag for flag, word in words.items() if word in said} == set(asked)
    assert bool(said) == (not passed or bool(asked))


def test_the_oracle_needs_no_comparison_with_itself() -> None:
    cell = Cell(series="reference", kind="oracle", equivalence=Item(checked=False, passed=False), flags=[])
    assert doubt_of_cell(cell, TIME, False) == ""
    cell.equivalence = Item(checked=True, passed=False)
    assert "not compared" in doubt_of_cell(cell, MEMORY, False)


@BUILT
def test_a_claim_about_another_device_is_not_decided_here(tmp_path: Path) -> None:
    word, reason = decided(tmp_path, lambda _: None, device="cuda")
    assert (word, reason) == (ABSENT, "the claim is about cuda, and this is cpu")
    assert decided(tmp_path, lambda _: None, device="cpu")[0] == HOLDS


@BUILT
def test_a_report_of_uncommitted_changes_is_marked(tmp_path: Path) -> None:
    word, reason = decided(tmp_path, lambda report: report["run"].update(dirty=True))
    assert (word, reason) == (HOLDS, "from a working copy with uncommitted changes")


@BUILT
def test_repeats_of_one_seed_decide_no_accuracy(tmp_path: Path) -> None:
    claim = {"metric": "validation_accuracy", "rule": {"between": [0.5, 2]}, "published": False}
    assert decided(tmp_path, lambda _: None, **claim)[0] == HOLDS
    word, reason = decided(tmp_path, lambda report: of_forks(report, seed=1), **claim)
    assert word == UNDECIDED
    assert "same seed" in reason


@BUILT
def test_a_verdict_names_device_data_loops_and_loader(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b()))
    assert lines_of(path)[0]["where"] == "cpu, mnist, two-contexts / fit, loader harness"
    cut = benchmark_b()
    cut["run"]["config"] |= {"samples": 640, "overridden": ["samples"]}
    path.write_text(json.dumps(cut))
    assert lines_of(path)[0]["where"] == "cpu, mnist, two-contexts / fit, loader harness, samples 640"
    assert "| holds (cpu, mnist, two-contexts / fit, loader harness, samples 640) |" in claims(path).stdout


@BUILT
def test_only_pairs_with_the_named_cell_are_withdrawn(tmp_path: Path) -> None:
    withdrawn = {"start": "2026-01-02T03:04:05Z", "reason": "it was fed by hand"}
    for mode, word in (("two-contexts", UNDECIDED), ("eager", HOLDS), ("fit", UNDECIDED)):
        one = [withdrawn | {"cell": {"mode": mode}}]
        assert decided(tmp_path, lambda _: None, withdrawn=one)[0] == word, mode


@BUILT
def test_a_quick_run_and_a_withdrawn_one_decide_nothing(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b(quick=True)))
    assert lines_of(path)[0]["reason"] == "a quick run is not a measurement"
    withdrawn = deepcopy(SMALL)
    claim = withdrawn["studies"][0]["claims"][0]
    claim["withdrawn"] = [{"start": "2026-01-02T03:04:05Z", "reason": "it was fed by hand"}]
    catalogue = tmp_path / "claims.json"
    catalogue.write_text(json.dumps(withdrawn))
    path.write_text(json.dumps(benchmark_b()))
    line = lines_of(path, "--catalogue", catalogue)[0]
    assert (line["verdict"], line["reason"]) == (UNDECIDED, "withdrawn: it was fed by hand")
    assert line["measured"]


@BUILT
def test_a_run_that_was_cut_by_option_is_still_found(tmp_path: Path) -> None:
    report = benchmark_b()
    report["cells"] = report["cells"][:2]
    report["run"]["config"] |= {"epochs": 5, "overridden": ["epochs", "unknown"]}
    path = tmp_path / "b.json"
    path.write_text(json.dumps(report))
    verdicts = [line["verdict"] for line in lines_of(path) if "cuda" not in line["cells"]]
    assert verdicts == [HOLDS] * 3


def test_a_study_is_also_found_by_its_config() -> None:
    assert study_named(SHIPPED, "paltenghi-a-operators").name == "paltenghi-a"
    assert study_named(SHIPPED, "threads-operators").name == "threads"


def test_the_studies_are_listed_with_their_configs() -> None:
    lines = claims("--list").stdout.splitlines()
    assert len(lines) == len(SHIPPED) + 2
    assert any(line.startswith("| threads | threads, threads-operators | 1 |") for line in lines)
    for arguments in (["--list", "x.json"], ["--list", "--study", "threads"], ["--list", "--results"]):
        assert "--list takes no REPORT" in claims(*arguments, codes=(2,)).stderr


@BUILT
def test_the_other_formats_have_the_same_lines(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b()))
    lines = json.loads(claims(path, "--format", "json").stdout)["lines"]
    rows = list(csv.DictReader(claims(path, "--format", "csv").stdout.splitlines()))
    assert [(row["id"], row["verdict"]) for row in rows] == [(line["id"], line["verdict"]) for line in lines]
    out = tmp_path / "claims.md"
    assert claims(path, "--out", out).stdout == ""
    table = out.read_text(encoding="utf-8").splitlines()
    assert len(table) == len(lines) + 2
    assert all(line.startswith("| ") and line.endswith("|") for line in [table[0], *table[2:]])


@BUILT
def test_wrong_input_ends_with_two_and_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(made_report.report([trained(made_report.Maker(), "jax", "jit", 2, 1e-3)])))
    for arguments, said in (
        ([path], "no config of a study measured it; --study NAME says whose it is"),
        ([path, "--study", "nonsense"], "unknown study nonsense"),
        ([], "no REPORT is given"),
        (["--results", path], "--results takes no REPORT"),
        (["nothing.json"], "nothing.json: No such file"),
    ):
        done = claims(*arguments, codes=(2,))
        assert said in done.stderr
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
    assert "holds" not in claims(path, "--study", "paltenghi-b").stdout


@BUILT
def test_the_page_of_results_is_that_of_the_samples() -> None:
    page = (ROOT / "results/README.md").read_text(encoding="utf-8")
    assert claims("--results").stdout == page, "scripts/claims --results --out results/README.md"


@BUILT
def test_the_cells_of_a_claim_that_no_report_has_are_one_row_of_the_page() -> None:
    study_of = next(study for study in read_catalogue() if study.name == "borealis-epoch-time")
    study, lines, _ = read_for(study_of, [ROOT / sample for sample in study_of.samples], PROGRAM)
    absent = [line for line in lines if line.verdict == NO_CELL]
    rows = page_rows(lines, study)
    assert len(rows) == len(lines) - len(absent) + len({line.claim.id for line in absent})
    (waiting,) = (row for row in rows if row[0].startswith("Without workers") and "no report" in row[4])
    assert waiting[1].endswith(", loader workers 0 / mxnet, and 10 more")
    assert waiting[2].startswith("0.910; ")


@BUILT
def test_a_claim_waits_on_the_page_for_a_sample(tmp_path: Path) -> None:
    catalogue = tmp_path / "claims.json"
    sample = tmp_path / "report.json.gz"
    sample.write_bytes(gzip.compress(json.dumps(benchmark_b()).encode()))
    sampled = deepcopy(SMALL)
    text = "results/studies/batch.md"  # without numbers of samples
    sampled["studies"][0] |= {"samples": [str(sample)], "columns": ["training_time"], "text": text}
    waiting = SMALL["studies"][0] | {"name": "w"}
    catalogue.write_text(json.dumps(sampled | {"studies": [*sampled["studies"], waiting]}))
    page = claims("--results", "--catalogue", catalogue).stdout
    assert "| w | MXNet is faster | several | not on this machine: no report has such cells |" in page
    catalogue.write_text(
        json.dumps(sampled | {"studies": [*sampled["studies"], waiting | {"unmeasured": "why"}]})
    )
    told = claims("--results", "--catalogue", catalogue).stdout
    assert "| w | MXNet is faster | several | not measured: why |" in told
    value = "| w | training_time: lenet5 mxnet two-contexts cpu, epochs 5 / tensorflow fit-generator"
    assert value in page, "an entry that no claim is about"
    catalogue.write_text(json.dumps(sampled))
    page = claims("--results", "--catalogue", catalogue).stdout
    verdicts = [
        line.rsplit(" | ", 1)[1] for line in page.splitlines() if line.startswith("| MXNet is faster |")
    ]
    assert [verdict.partition(" ")[0] for verdict in verdicts] == ["holds", "reversed"]
    assert "without a sample" not in page


@BUILT
def test_what_a_study_gives_is_next_to_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    report = benchmark_b()
    report["run"]["config"] |= {"name": "paltenghi-c", "epochs": 5, "overridden": ["epochs"]}
    path.write_text(json.dumps(report))
    study_of = study_named(SHIPPED, "paltenghi-c")
    study = read_study([path], "", PROGRAM)
    differ = {row[0]: row[1:] for row in difference_rows(study_of, study)}
    assert differ["MXNet"][0] == "1.5"
    assert differ["repeats"] == ("5 or more", "6")
    assert differ["GPU"] == ("GTX 980", "none")
    assert differ["epochs"] == ("15", "5"), "the command line set it"
    rows = value_rows(study_of, values_of(study_of, study, [path], PROGRAM), study)
    fit = {row[0]: row[1:] for row in rows if row[0].endswith(": lenet5 tensorflow fit cpu")}
    place, published, measured = fit["test_accuracy: lenet5 tensorflow fit cpu"]
    assert place == "public results, figure 5"
    assert published.startswith("98.6 %; public results of the study")
    assert measured.endswith(", 2 cells"), "the report has it over 5 and 10 epochs"
    assert "training_cpu_time: lenet5 tensorflow fit cpu" in fit, "the study's clock, not that of the entry"


@BUILT
def test_a_pair_that_failed_in_one_sample_counts_from_another_that_has_it() -> None:
    (study_of,) = [study for study in SHIPPED if study.name == "paltenghi-b"]
    samples = [ROOT / sample for sample in study_of.samples]
    once = {path.name.split(".")[0]: path for path in samples}

    def verdict(*paths: Path) -> str:
        _, lines, _ = read_for(study_of, list(paths), PROGRAM)
        (line,) = [
            one
            for one in lines
            if one.claim.id == "time-generator" and "two-contexts cpu, epochs 15" in one.cells
        ]
        assert line.verdict
        return line.verdict.word

    assert verdict(once["partners"]) == "undecided"
    assert verdict(once["fifteen"]) == verdict(*samples) == "reversed"


@BUILT
@pytest.mark.parametrize("study", [s for s in SHIPPED if s.samples], ids=lambda study: study.name)
def test_a_sample_is_of_its_study(study: Any) -> None:
    lines = json.loads(claims(*(ROOT / s for s in study.samples), "--format", "json").stdout)["lines"]
    assert {line["study"] for line in lines} == ({study.name} if study.claims else set())


@pytest.mark.skipif(
    not (BUILD / "backends/cuda/backend.json").exists(),
    reason="the backend cuda, which configs name, is not built",
)
@pytest.mark.parametrize("study", [s for s in SHIPPED if s.samples], ids=lambda study: study.name)
def test_the_printed_command_of_a_sample_repeats_its_cells(study: Any) -> None:
    for sample in study.samples:
        path = ROOT / sample
        document = json.loads(
            gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        )
        assay, *words = shlex.split(command_of(study, sample, document["run"]))
        done = subprocess.run(
            [str(PROGRAM), *words, "--dry-run"], capture_output=True, text=True, check=False, cwd=ROOT
        )
        assert assay == "assay"
        planned = {
            line.split()[0] for line in done.stdout.splitlines() if re.match(r"\S+/(cpu|cuda)/\S+  ", line)
        }
        assert planned == {cell["id"] for cell in document["cells"]}, f"{sample}: {done.stderr}"


def test_no_sample_is_of_a_working_copy_with_changes() -> None:
    for path in (ROOT / "results/samples").rglob("*.json*"):
        head = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert json.loads(head)["run"]["dirty"] is False, path


# Numbers that were not measured here: those that a study or a config has.
GIVEN = {
    "paltenghi-a": ["0.05 s", "37 times"],
    "smartia-table-4": ["71 %", "87 %"],
    "paltenghi-c": ["1.73 times"],
    "paltenghi-d-xla": ["1.15 times", "2.5 times"],
    "paltenghi-b": ["half"],  # of a batch, and of the threads
    "paltenghi-b-own-start": ["0.33", "0.60", "0.86", "0.88"],
    "borealis-epoch-time": ["50 %", "1.3", "1.5"],
    "mxnet-memory": ["half", "quarters"],
    "mxnet-raw-speed": ["0.8", "1.25"],
    "recompute": ["7 GB", "30 %", "40 %", "15 %", "18 times"],
    "threads": ["16 KiB"],
    "smartia-table-5": ["6 GB"],
}
VERSION = re.compile(r"\b(?:PyTorch|TensorFlow|MXNet|JAX|Keras)(?: is)? \d+(?:\.\d+)+")
IN_DIGITS = re.compile(
    r"\d[\d.,]* ?(?:us|µs|ms|s|kB|KiB|MiB|GiB|GB|GFLOP/s|k/s|/s|%|times)(?![\w])|\[\d[\d., ]*\]"
    r"|(?<![\w.])\d+\.\d+(?![\w.])"
)
_COUNT = (
    "a|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|fifty|sixty|"
    "hundred|thousand|few|many|several|some"
)
_UNIT = r"times|per ?cent|(?:nano|micro|milli)?seconds?|minutes?|hours?|(?:kilo|mega|giga)bytes?"
IN_WORDS = re.compile(
    r"\b(?:twice|thrice|doubl(?:e[sd]?|ing)|tripl(?:e[sd]?|ing)|quadrupl(?:e[sd]?|ing)|halv(?:e[sd]?|ing)|"
    r"half|(?:third|quarter|fifth|tenth|hundredth|thousandth)s?|\w+fold|orders? of magnitude|by a factor|"
    rf"factor of|(?:{_COUNT})[ -](?:(?:hundred|thousand) )?(?:{_UNIT}))\b",
    re.IGNORECASE,
)


def figures_in(text: str) -> list[str]:
    """The figures that a text has in digits or words, and not from a sample."""
    plain = VERSION.sub("", " ".join(re.sub(r"\{[^{}]*\}", "{}", text).split()))
    plain = plain.replace("a second thread", "")
    return [found[0] for pattern in (IN_DIGITS, IN_WORDS) for found in pattern.finditer(plain)]


@pytest.mark.parametrize(
    "figure",
    [
        *(
            "1.73 times",
            "49 us",
            "5 %",
            "[0.9, 1.1]",
            "0.82",
            "twice",
            "Thrice",
            "half",
            "a quarter",
            "nine tenths",
        ),
        *(
            "tenfold",
            "three\ntimes",
            "two hundred times",
            "some milliseconds",
            "a few seconds",
            "forty percent",
        ),
        *("by a factor", "an order of magnitude", "doubles", "halved", "several times", "a hundredth"),
    ],
)
def test_figures_of_a_text_are_found_in_digits_and_in_words(figure: str) -> None:
    assert figures_in(f"In PyTorch 2.15 a step takes {figure} of it.")
    assert (
        figures_in("In PyTorch 2.15 one step of 1,000 takes {step_time: torch} with a second thread.") == []
    )


@pytest.mark.parametrize("study", [s for s in SHIPPED if s.samples], ids=lambda study: study.name)
def test_a_text_takes_its_numbers_from_the_samples(study: Any) -> None:
    found = figures_in((ROOT / study.text).read_text(encoding="utf-8"))
    assert sorted({*found} - {*GIVEN.get(study.name, ())}) == []


@BUILT
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{step_tim: mxnet}", "unknown metric step_tim"),
        ("a {step_time mxnet} b", "number {step_time mxnet: has not the form"),
        ("{step_time!mode: mxnet epochs=5}", "unknown form mode; known are value, interval"),
        ("{step_time: mxnet}", "3 cells of the samples are mxnet, and it must be one"),
        ("{step_time: torch}", "no cell of the samples has torch"),
        ("{step_time: mxnet epochs=5 / backend=tensorflow mode=graph}", "no other cell of its report"),
        ("{latency_p50: mxnet epochs=5}", "it was not measured"),
    ],
)
def test_a_number_that_the_samples_do_not_have_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b()))
    study = read_study([path], "", PROGRAM)
    with pytest.raises(ClaimError, match=re.escape(said)):
        filled(text, study, [path], PROGRAM)


@BUILT
def test_numbers_of_a_text_are_those_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text(json.dumps(benchmark_b()))
    study = read_study([path], "", PROGRAM)
    text = "{training_time!value: mxnet epochs=5 /\nbackend=tensorflow mode=fit} times, "
    text += "{step_time!rounds: mxnet epochs=10} forks"
    ratio, forks = filled(text, study, [path], PROGRAM).split(" times, ")
    five = lines_of(path)[0]["measured"][0]
    assert (float(ratio), forks) == (pytest.approx(five["value"], rel=0.01), "6 forks")


def test_the_catalogue_is_the_shipped_one() -> None:
    assert CATALOGUE.is_file()
    assert {"paltenghi-b", "smartia-table-4", "mxnet-memory"} <= {s.name for s in SHIPPED if s.samples}
