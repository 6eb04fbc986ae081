"""scripts/plot: what is drawn of a report, what is left out and why, and what hostile reports do to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import made_report
import pytest
from contrast import contrast

pytest.importorskip("altair", reason="altair is not installed: scripts/setup")
pytest.importorskip("vl_convert", reason="vl-convert is not installed: scripts/setup")

from assay_plots import tables
from assay_plots.analysis import ReportError, find_program, read_study
from assay_plots.figure import Figure, draw
from assay_plots.findings import UNSURE, findings
from assay_plots.page import about, make_page
from assay_plots.plots import PLOTS
from assay_plots.plots.tax import percent
from assay_plots.render import figure_svg, spec_of
from assay_plots.report import Ratio, Study
from assay_plots.summary import tiles, troubles, warnings
from assay_plots.text import clean, shown, shown_interval
from assay_plots.theme import LIMIT, PAPER, PUBLISHED, SERIES

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ASSAY_BUILD") or ROOT / "build/dev")
GOLDEN = ROOT / "tests/cli/data/report.json"
Json = dict[str, Any]
PROGRAM = BUILD / "assay"
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def study_at(*paths: Path) -> Study:
    return read_study(paths, program=PROGRAM)


@pytest.fixture
def study_of(tmp_path: Path) -> Callable[[Json], Study]:
    def make(report: Json) -> Study:
        path = tmp_path / "report.json"
        path.write_text(json.dumps(report))
        return study_at(path)

    return make


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("plots") / "everything.json"
    path.write_text(json.dumps(made_report.everything()))
    return study_at(path)


@pytest.fixture(scope="module")
def of_studies(tmp_path_factory: pytest.TempPathFactory) -> Study:
    path = tmp_path_factory.mktemp("plots") / "studies.json"
    path.write_text(json.dumps(made_report.studies()))
    return study_at(path)


OF_STUDIES = (
    "networks",
    "speedup",
    "ranks",
    "exchange",
    "latency",
    "decoding",
    "profile",
    "schedules",
    "plans",
)


def drawn(study: Study, name: str) -> Figure:
    return draw(next(plot for plot in PLOTS if plot.name == name), study)


def rows_of(figure: Figure, field: str) -> list[Json]:
    """Every row of a figure's data that has the field."""
    found: list[Json] = []
    for panel in figure.panels:
        for rows in spec_of(panel)["datasets"].values():
            found += [row for row in rows if field in row]
    return found


# ---- what is drawn


@pytest.mark.parametrize("plot", PLOTS, ids=lambda plot: plot.name)
def test_every_picture_is_drawn_of_a_report_that_has_everything(
    everything: Study, of_studies: Study, plot: Any
) -> None:
    utilised = plot.name == "speed_utilisation"
    figure = draw(plot, of_studies if utilised or plot.name in OF_STUDIES else everything)
    assert figure.left_out == ""
    assert figure.panels
    svg = figure_svg(figure, [spec_of(p) for p in figure.panels])
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    texts = "".join(root.itertext())
    assert plot.title in texts
    shown_by = {
        "memory": "naive",
        "plans": "naive",
        "schedules": "mxnet",
        "ranks": "torch",
        "exchange": "torch",
    }
    assert shown_by.get(plot.name, "onednn") in texts


def test_bars_show_the_metric_and_its_interval(everything: Study) -> None:
    rows = {row["series"]: row for row in rows_of(drawn(everything, "throughput"), "clean")[:4]}
    cell = everything.cells[0]
    metric = cell.metrics["samples_per_second"]
    assert rows["onednn graph"]["value"] == metric.value
    assert (rows["onednn graph"]["lower"], rows["onednn graph"]["upper"]) == (metric.lower, metric.upper)


def test_an_unranked_cell_has_a_note_next_to_its_bar(everything: Study) -> None:
    labels = [row["label"] for row in rows_of(drawn(everything, "throughput"), "label") if not row["clean"]]
    assert len(labels) == 1
    assert labels[0].endswith("/s, not ranked")


def test_published_ratios_and_values_become_rates(everything: Study) -> None:
    cell = everything.cells[1]
    ratio, absolute = cell.published
    base = everything.cells[0].value("samples_per_second")
    assert base is not None
    assert ratio.samples_per_second == pytest.approx(base / 1.8)
    assert absolute.samples_per_second == 30000.0
    marks = rows_of(drawn(everything, "throughput"), "rate")
    assert [mark["source"] for mark in marks] == [
        "Somebody et al. 2020, table 2",
        "Somebody else 2021: at most",
    ]


def test_the_tax_is_the_median_of_ratios_within_rounds(everything: Study) -> None:
    base, cell = everything.cells[0], everything.cells[1]
    by_hand = sorted(
        (a.step_seconds or 0) / (b.step_seconds or 1) for a, b in zip(cell.forks, base.forks, strict=True)
    )
    expected = (by_hand[2] + by_hand[3]) / 2 - 1
    row = next(r for r in rows_of(drawn(everything, "tax"), "tax") if r["series"] == "torch compile")
    assert row["tax"] == pytest.approx(expected)
    assert (row["lower"], row["upper"]) == (pytest.approx(by_hand[0] - 1), pytest.approx(by_hand[5] - 1))


def test_a_disturbed_cell_has_no_tax(everything: Study) -> None:
    assert "mxnet hybridize" not in {row["series"] for row in rows_of(drawn(everything, "tax"), "tax")}


def test_rooflines_are_the_work_over_what_the_machine_reached(everything: Study) -> None:
    rows = [row for row in rows_of(drawn(everything, "operators"), "roof") if row["extent"] == 12.0 * 1024**2]
    assert {row["roof"]: row["seconds"] for row in rows} == {
        "memory bandwidth": pytest.approx(12.0 * 1024**2 / 2e10),
        "arithmetic": pytest.approx(2.0 * 1024**3 / 1e11),
    }


def test_every_repeat_of_a_training_is_a_point(everything: Study) -> None:
    rows = rows_of(drawn(everything, "accuracy"), "accuracy")
    assert len(rows) == 4 * made_report.WIDE


def test_a_published_pair_of_time_and_accuracy_is_a_point(study_of: Callable[[Json], Study]) -> None:
    """A mark needs both numbers of a cell: one of them, or a ratio, makes no mark."""
    m = made_report.Maker()
    cells = [
        m.cell(backend, mode, "framework", m.epoch_forks(2e-3, 2, 3), measure="epochs:3", loader="harness")
        for backend, mode in (("mxnet", "eager"), ("tensorflow", "fit"), ("torch", "eager"))
    ]

    def entry(metric: str, value: float, to: str | None = None) -> Json:
        unit = "s" if metric == "training_time" else "1"
        said = {"source": "Somebody et al. 2020", "statement": "median"}
        return {"metric": metric, "value": value, "unit": unit, "to": to} | said

    cells[0]["published"] = [
        entry("test_accuracy", 1.0007, cells[1]["id"]),
        entry("training_time", 787.0),
        entry("test_accuracy", 0.9871),
    ]
    cells[1]["published"] = [entry("training_time", 1322.0), entry("validation_accuracy", 0.98)]
    report = made_report.report(cells)
    figure = drawn(study_of(report), "accuracy")
    (mark,) = rows_of(figure, "published")
    assert (mark["series"], mark["published"], mark["reached"]) == ("mxnet eager", 787.0, 0.9871)
    assert figure.note.startswith("◆")
    scales = [spec_of(panel)["layer"][0]["encoding"]["x"]["scale"]["type"] for panel in figure.panels]
    assert scales == ["log"]
    report["run"]["quick"] = True
    assert rows_of(drawn(study_of(report), "accuracy"), "published") == []


def test_memory_is_stacked_under_each_plan(everything: Study) -> None:
    rows = rows_of(drawn(everything, "memory"), "part")
    naive = {row["part"]: row["bytes"] for row in rows if row["plan"] == "naive"}
    assert sorted(naive.values()) == [4_000_000, 18_800_000]


def test_memory_has_what_a_worker_reports(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    forks = m.steps_forks(1e-3, 6, 5)
    for fork in forks:
        fork["memory"] |= {"framework_peak": 5_000_000}
    figure = drawn(study_of(made_report.report([m.cell("torch", "eager", "framework", forks)])), "memory")
    measured = {
        panel.heading.title.partition(":")[0]: [
            row["bytes"] for data in spec_of(panel)["datasets"].values() for row in data if "bytes" in row
        ]
        for panel in figure.panels
        if panel.heading.title.startswith("Measured")
    }
    assert measured == {
        "Measured (host, peak resident)": [90_000_000],
        "Measured (framework's allocator, peak)": [5_000_000],
        "Measured (arena of the step)": [8_000_000],
    }


def test_a_published_throughput_is_marked_at_its_batch(everything: Study) -> None:
    marks = rows_of(drawn(everything, "batch"), "published")
    assert [(row["batch"], row["series"], row["published"]) for row in marks] == [
        (32, "torch compile", 30000)
    ]


def test_the_heat_map_marks_what_is_past_its_bound(everything: Study) -> None:
    wrong = [row for row in rows_of(drawn(everything, "equivalence"), "mark") if row["mark"]]
    assert [(row["series"], row["text"]) for row in wrong] == [("numpy eager", "3.5 times the bound")]


def test_a_speed_up_is_over_the_fewest_threads(of_studies: Study) -> None:
    rows = [row for row in rows_of(drawn(of_studies, "speedup"), "share") if row["series"] == "onednn graph"]
    assert [row["threads"] for row in rows] == [1, 2, 4]
    rates = [cell.value("samples_per_second") for cell in of_studies.cells if cell.series == "onednn graph"]
    assert [row["speedup"] for row in rows] == pytest.approx(
        [rate / (rates[0] or 1) for rate in rates[:3] if rate]
    )


def test_a_speed_up_of_an_operator_names_its_size() -> None:
    study = study_at(ROOT / "results/samples/threads/operators.json.gz")
    figure = drawn(study, "speedup")
    assert [(panel.heading.title, panel.heading.about.split(",")[0]) for panel in figure.panels] == [
        ("op/gemm, forward over threads", "size m64"),
        ("op/relu, forward over threads", "size 4096"),
    ]
    mine = [cell for cell in study.cells if cell.axes["workload"] == "op/relu" and cell.series == "jax jit"]
    one, two = (cell.value("step_time") for cell in sorted(mine, key=lambda cell: cell.axes["threads"]))
    assert one
    assert two
    gains = [row["speedup"] for row in rows_of(figure, "share") if row["series"] == "jax jit"]
    assert gains[2:] == pytest.approx([1, one / two])


def test_a_speed_up_over_ranks_is_over_one_rank(of_studies: Study) -> None:
    figure = drawn(of_studies, "ranks")
    assert [panel.heading.title for panel in figure.panels] == [
        "Speed-up: mlp, training, batch 512, strong scaling",
        "Efficiency: mlp, training, batch 512, strong scaling",
    ]
    both = [row for row in rows_of(figure, "times") if row["series"] == "torch eager"]
    rows = both[:3]
    assert both[3:] == rows, "both panels have the same numbers"
    assert [row["ranks"] for row in rows] == [1, 2, 4]
    rates = [
        cell.value("samples_per_second")
        for cell in of_studies.cells
        if cell.series == "torch eager" and cell.batch == 512
    ]
    expected = [rate / (rates[0] or 1) for rate in rates if rate]
    assert [row["speedup"] for row in rows] == pytest.approx(expected, rel=0.05), "paired, so not quite"
    assert [row["efficiency"] * row["ranks"] for row in rows] == pytest.approx([r["speedup"] for r in rows])
    ideal = [row for row in rows_of(figure, "speedup") if "series" not in row]
    assert [row["speedup"] for row in ideal] == [1, 2, 4]
    whole = [row["efficiency"] for row in rows_of(figure, "efficiency") if "series" not in row]
    assert whole == [1, 1, 1]


def test_a_published_efficiency_is_marked_at_its_ranks(study_of: Callable[[Json], Study]) -> None:
    cells = made_report.in_ranks(made_report.Maker())[:3]
    source = {"source": "Somebody 2016", "statement": "of a cluster"}
    cells[1]["published"] = [
        {"metric": "step_time", "value": 0.625, "unit": "1", "to": cells[0]["id"]} | source
    ]
    figure = drawn(study_of(made_report.report(cells)), "ranks")
    marks = rows_of(figure, "published")
    assert [(row["ranks"], row["efficiency"], row["speedup"]) for row in marks] == [(2, 0.8, 1.6)] * 2
    assert "published" in figure.note


def test_a_step_of_ranks_is_cut_into_computing_and_exchange(of_studies: Study) -> None:
    rows = rows_of(drawn(of_studies, "exchange"), "part")
    assert {row["series"] for row in rows} == {"torch eager"}, "jax did not time its exchange"
    by_part = {row["part"]: row["seconds"] for row in rows}
    times = made_report.EXCHANGE_TIMES
    assert sum(by_part.values()) == pytest.approx(times["step_seconds"])
    exposed, hidden = by_part["exposed exchange"], by_part["hidden exchange, while it computes"]
    assert exposed == pytest.approx(times["step_seconds"] - times["local_seconds"])
    assert exposed + hidden == pytest.approx(times["bare_seconds"])
    assert {(row["share"], row["hides"]) for row in rows} == {("25 %", "25 %")}


def test_bars_are_grouped_over_the_axis(everything: Study, of_studies: Study) -> None:
    places = {row["place"] for row in rows_of(drawn(everything, "bars"), "place")}
    assert places == {"32", "64", "128", "256"}
    figure = drawn(of_studies, "bars")
    assert {row["place"] for row in rows_of(figure, "place")} == {
        "1",
        "2",
        "4",
        "every:2x0.9",
        "16",
        "the network's own",
    }
    titles = [panel.heading.title for panel in figure.panels]
    assert any(title.startswith("training: lenet5, training") and "schedule" in title for title in titles)


def test_a_published_number_is_marked_on_its_bar(everything: Study) -> None:
    marks = rows_of(drawn(everything, "bars"), "published")
    base = everything.cells[0].value("step_time")
    assert base is not None
    assert [(mark["place"], mark["published"]) for mark in marks] == [("32", pytest.approx(1.8 * base))]


def test_latencies_rise_from_the_median_to_the_slowest(of_studies: Study) -> None:
    figure = drawn(of_studies, "latency")
    found = [
        [row for row in rows if row["series"] == "jax jit"]
        for panel in figure.panels
        for rows in spec_of(panel)["datasets"].values()
        if "percentile" in rows[0]
    ]
    calls, tokens = ["p50", "p90", "p99", "p99.9"], ["p50", "p99"]
    percentiles = sorted([row["percentile"] for row in rows] for rows in found)
    assert percentiles == sorted([calls, tokens, tokens]), "of two lengths of tokens"
    for rows in found:
        seconds = [row["seconds"] for row in rows]
        assert seconds == sorted(seconds)


def test_prompts_and_tokens_are_drawn(of_studies: Study) -> None:
    cells = [cell for cell in of_studies.cells if cell.axes["task"] == "decode"]
    found = [
        (row["measure"], row["series"], row["value"])
        for panel in drawn(of_studies, "decoding").panels
        for rows in spec_of(panel)["datasets"].values()
        for row in rows
    ]
    names = ("prefill_time", "tokens_per_second")
    expected = [(name, cell.series, cell.metrics[name].value) for cell in cells for name in names]
    assert sorted(found) == sorted(expected)
    assert expected


def test_both_schedules_are_in_one_panel(of_studies: Study) -> None:
    (panel,) = drawn(of_studies, "schedules").panels
    rows = [row for data in spec_of(panel)["datasets"].values() for row in data]
    assert {(row["series"], row["schedule"]) for row in rows} == {
        (series, schedule)
        for series in ("torch eager", "mxnet eager")
        for schedule in ("the network's own", "every:2x0.9")
    }


def test_a_profile_is_stacked_by_operator(of_studies: Study) -> None:
    rows = rows_of(drawn(of_studies, "profile"), "op")
    assert [row["op"] for row in rows] == ["convolution", "linear", "relu"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(8e-4, rel=0.1)


def test_plans_are_shares_of_the_naive_one_over_networks(of_studies: Study) -> None:
    figure = drawn(of_studies, "plans")
    rows = rows_of(figure, "plan")
    assert [row["share"] for row in rows if row["plan"] == "naive"] == [1.0, 1.0]
    assert {row["network"] for row in rows} == {"alexnet", "vgg_a"}
    assert [row["share"] for row in rows_of(figure, "source")] == [0.5, 0.5]


def test_the_dimension_of_an_operator_has_a_band_over_its_forks(everything: Study) -> None:
    rows = rows_of(drawn(everything, "dimension"), "dimension")
    assert sorted({row["dimension"] for row in rows}) == [16, 64, 256, 1024, 65536, 1048576]
    assert all(row["low"] <= row["seconds"] <= row["high"] for row in rows)


def test_a_published_ratio_is_marked_at_its_dimension(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.op("op/relu", backend, kind, str(n), 8.0 * n, 1.0 * n)
        for backend, kind in (("onednn", "bare"), ("torch", "framework"))
        for n in (256, 4096, 65536)
    ]
    source = {"source": "Somebody 2020", "statement": "on a GPU"}
    cells[5]["published"] = [
        {"metric": "step_time", "value": 0.5, "unit": "1", "to": cells[2]["id"]} | source,
        {"metric": "step_time", "value": None, "unit": "", "to": cells[2]["id"]} | source,
    ]
    study = study_of(made_report.report(cells))
    figure = drawn(study, "dimension")
    there = study.cells[2].value("step_time")
    assert there is not None
    marks = [(row["dimension"], row["series"], row["published"]) for row in rows_of(figure, "published")]
    assert marks == [(65536, "torch eager", pytest.approx(0.5 * there))]
    assert "published" in figure.note


def test_a_line_of_an_operator_has_a_band_over_its_forks(everything: Study) -> None:
    rows = rows_of(drawn(everything, "operators"), "low")
    assert len(rows) == 14
    assert all(row["low"] <= row["seconds"] <= row["high"] for row in rows)
    assert any(row["low"] < row["high"] for row in rows)


def test_loaders_that_differ_in_their_threads_are_compared(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.cell("torch", "eager", "framework", m.steps_forks(1e-3, 6, 5), loader=loader)
        for loader in ("resident", "native")
    ]
    cells[1]["variant"] = {"loader-threads": "4"}
    cells[1]["id"] = cells[1]["id"].replace("/steps", "/loader-threads=4/steps")
    rows = rows_of(drawn(study_of(made_report.report(cells)), "bars"), "place")
    assert {row["place"] for row in rows} == {"resident", "native"}


def test_a_series_has_one_colour_in_every_picture(everything: Study) -> None:
    colours: dict[str, set[str]] = {}
    for plot in PLOTS:
        for panel in draw(plot, everything).panels:
            for scale in re.findall(
                r'"field": "series", "legend": .*?"scale": (\{.*?\})', json.dumps(spec_of(panel))
            ):
                found = json.loads(scale)
                for name, value in zip(found.get("domain", []), found.get("range", []), strict=True):
                    if str(value).startswith("#"):
                        colours.setdefault(name, set()).add(value)
    assert len(colours) == 5
    assert all(len(found) == 1 for found in colours.values())


def test_two_reports_are_side_by_side_and_not_paired(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.json" for name in ("old", "new")]
    for path in paths:
        path.write_text(json.dumps(made_report.everything()))
    study = study_at(*paths)
    assert {cell.series for cell in study.groups[0].cells} >= {"onednn graph @ old", "onednn graph @ new"}
    half = study.reports[0].cells
    old, new = study.cells[0], study.cells[half]
    assert old.id == new.id
    assert [study.groups[0].cells.index(cell) for cell in (old, new)] == [0, len(study.groups[0].cells) // 2]
    assert all(cell.base is None or (cell.base < half) == (cell.report == 0) for cell in study.cells)
    fastest = study.groups[0].ranked()[0]
    across = [cell.to_fastest for cell in study.groups[0].ranked() if cell.report != fastest.report]
    assert across
    assert all(ratio is not None and (ratio.n, ratio.lower) == (0, None) for ratio in across)
    assert drawn(study, "tax").panels


# ---- what is left out


def test_missing_data_is_left_out_with_the_reason() -> None:
    study = study_at(GOLDEN)
    left = {plot.name: draw(plot, study).left_out for plot in PLOTS}
    assert {name for name, reason in left.items() if reason} == {
        *("batch", "operators", "accuracy", "convergence", "epochs", "first_epoch"),
        *("bars", "dimension", *OF_STUDIES),
    }
    assert "assay run --epochs" in left["epochs"]
    assert "op/gemm" in left["operators"]
    assert "No GPU was sampled" in drawn(study, "utilisation").note


def test_a_report_of_nothing_but_failures_makes_a_page(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("jax", "jit", "framework", m.steps_forks(1e-3, 1, 1))
    study = study_of(made_report.report([made_report.unrun(cell, "crashed", "SIGSEGV")]))
    figures = [draw(plot, study) for plot in PLOTS]
    assert all(figure.left_out for figure in figures)
    page = make_page(study, [(figure, []) for figure in figures])
    assert "SIGSEGV" in page
    assert "No cell of this report can be ranked, so" in page


def test_of_many_comparisons_some_are_drawn_and_the_page_says_how_many(
    study_of: Callable[[Json], Study],
) -> None:
    figure = drawn(study_of(made_report.large(80, forks=2, blocks=2)), "throughput")
    assert len(figure.panels) == 12
    assert "12 of 20 comparisons are drawn; --filter" in figure.note


def test_an_interrupted_run_says_that_more_can_come(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("jax", "jit", "framework", m.steps_forks(1e-3, 1, 1))
    study = study_of(made_report.report([made_report.unrun(cell, "interrupted", "SIGINT")], complete=False))
    assert ("1", "not yet measured") in [(tile.value, tile.what) for tile in tiles(study)]
    assert "went wrong" not in [tile.what for tile in tiles(study)]
    assert drawn(study, "throughput").left_out.endswith(
        "; 1 cell not yet measured: assay run --resume REPORT"
    )


def test_the_oracle_is_ranked_without_a_check(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    unchecked = {"checked": False, "passed": False, "worst": 0.0, "reason": "", "tensors": []}
    oracle = m.cell("reference", "eager", "oracle", m.steps_forks(1e-1, 6, 2)) | {"equivalence": unchecked}
    other = m.cell("torch", "eager", "framework", m.steps_forks(1e-3, 6, 2)) | {"equivalence": unchecked}
    study = study_of(made_report.report([oracle, other]))
    assert [cell.clean for cell in study.cells] == [True, False]


def test_of_many_cells_in_one_comparison_the_first_in_rank_are_drawn(
    study_of: Callable[[Json], Study],
) -> None:
    m = made_report.Maker()
    cells = [m.cell(f"b{i}", "eager", "framework", m.steps_forks(1e-3 * (99 - i), 2, 1)) for i in range(50)]
    study = study_of(made_report.report(cells))
    figure = drawn(study, "throughput")
    rows = rows_of(figure, "label")
    assert len(rows) == 40
    assert rows[0]["series"] == "b49 eager"
    assert "more than 40 cells" in figure.note
    assert len(list(tables.rows(study))) == 50


# ---- words and numbers


def test_the_summary_names_the_fastest_and_how_far_the_others_are(everything: Study) -> None:
    several, one, *ops = findings(everything)
    assert re.fullmatch(
        r"mlp, training \(fp32, cpu with 2 threads\): onednn graph is the fastest at all 4 batch sizes; "
        r"torch compile takes 1\.\d+ to 2\.\d+ times as long, jax jit takes .*, torch eager takes .*\.",
        several,
    )
    assert re.search(
        r"\. When the batch doubles, the time is [\d.]+ times for onednn graph, .* and [\d.]+ times for ",
        several,
    )
    assert re.match(
        r"lenet5, training, batch 200 \(fp32, cpu with 2 threads\): onednn graph is the fastest of 4 with "
        r"[\d.]+ k samples a second; torch compile takes 2\.\d+ times as long, ",
        one,
    )
    assert [text.split(":")[0] for text in ops] == [
        "op/gemm, forward (fp32, cpu with 2 threads)",
        "op/relu, forward (fp32, cpu with 2 threads)",
    ]


def test_the_summary_says_about_where_there_is_no_interval(study_of: Callable[[Json], Study]) -> None:
    found = findings(study_of(made_report.large(8)))
    assert "torch compile takes about 1." in found[0]
    assert found[-1] == UNSURE


def test_warnings_say_what_was_seen_and_the_remedy(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, 3, 2))
    study = study_of(made_report.report([cell], complete=False, dirty=True, quick=True))
    found = {w.what: w.remedy for w in warnings(study)}
    assert found["this was a quick run: no measurement"] == "run it without --quick"
    assert found["1 cell with fewer than six forks: no interval"] == "assay run --forks 6"
    assert "the run is not complete" in found
    assert any("clock frequency" in what for what in found)


def test_troubles_with_one_reason_are_listed_once(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        made_report.unrun(
            m.cell("jax", "jit", "framework", m.steps_forks(1e-3, 1, 1), batch=b), "unavailable", "no jax"
        )
        for b in (1, 2, 3)
    ]
    found = troubles(study_of(made_report.report(cells)))
    assert [(t.status, t.reason, len(t.cells)) for t in found] == [("unavailable", "no jax", 3)]


def test_a_quick_run_is_never_next_to_published_values(study_of: Callable[[Json], Study]) -> None:
    report = made_report.everything()
    assert len(list(tables.published(study_of(report)))) == 2
    report["run"]["quick"] = True
    assert list(tables.published(study_of(report))) == []


def test_numbers_are_shown_with_three_digits_and_a_unit() -> None:
    assert shown(0.00205, "duration", "s") == "2.05 ms"
    assert shown(97563.3, "rate", "1/s") == "97.6 k/s"
    assert shown(91e6, "bytes", "B") == "86.8 MiB"
    assert shown(0.875, "percentage", "1") == "87.5 %"
    assert shown(2.5, "ratio", "1") == "2.50×"
    assert shown(None, "rate", "1/s") == "–"
    assert shown_interval(0.00205, 0.002, 0.0021, "duration", "s") == "2.05 ms [2.00, 2.10]"
    assert shown_interval(0.0009, 0.0008, 0.0011, "duration", "s") == "900 µs [800 µs, 1.10 ms]"


def ratio_of(study_of: Callable[[Json], Study], ratios: list[int]) -> Ratio:
    """Return the paired ratio of two cells, if one takes `ratios` times as long in each round."""
    m = made_report.Maker()
    base = m.cell(
        "onednn", "graph", "bare", [m.fork(i, [m.block("timed", 1e-6, 20)]) for i in range(len(ratios))]
    )
    forks = [m.fork(i, [m.block("timed", ratio * 1e-6, 20)]) for i, ratio in enumerate(ratios)]
    study = study_of(made_report.report([base, m.cell("torch", "eager", "framework", forks)]))
    ratio = study.cells[1].ratio
    assert ratio is not None
    return ratio


def test_intervals_are_order_statistics_of_the_ratios(study_of: Callable[[Json], Study]) -> None:
    six = ratio_of(study_of, [2, 3, 4, 5, 6, 7])
    assert (six.value, six.lower, six.upper) == pytest.approx((4.5, 2.0, 7.0))
    nine = ratio_of(study_of, list(range(2, 11)))
    assert (nine.lower, nine.upper) == pytest.approx((2.0, 10.0))  # 99.6 %: docs/explanation/statistics.md
    assert ratio_of(study_of, [2, 3, 4, 5, 6]).lower is None


def test_labels_hold_nothing_that_misleads() -> None:
    assert clean("a\x00b\x1b[31m\ud800\u202ec") == "a\ufffdb\ufffd[31m\ufffd\ufffdc"
    assert clean("x" * 300, 10) == "xxxxxxxxx…"


@pytest.mark.parametrize("colour", [*SERIES, LIMIT, PUBLISHED])
def test_colours_have_contrast_on_white_and_black(colour: str) -> None:
    for paper in PAPER.values():
        assert contrast(colour, paper) >= 3, f"{colour} on {paper}"


# ---- hostile reports


def refused(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "hostile.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ReportError) as error:
        study_at(path)
    return str(error.value)


def changed(path: str, value: str) -> str:
    """A report's text in which the field at `path` holds the JSON text `value`."""
    m = made_report.Maker()
    report: Any = made_report.report([m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, 2, 2))])
    at = report
    *way, last = path.split(".")
    for step in way:
        at = at[int(step) if step.isdigit() else step]
    at[int(last) if last.isdigit() else last] = "@@"
    return json.dumps(report).replace('"@@"', value)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("cells.0.metrics.step_time.value", "NaN", "not valid JSON"),
        ("cells.0.metrics.step_time.value", "1e999", "out_of_range"),
        ("cells.0.metrics.step_time.value", "1e101", "the number is too large"),
        ("cells.0.metrics.step_time.value", "9" * 400, "overflow"),
        ("cells.0.metrics.step_time.value", "9" * 9000, "overflow"),
        ("cells.0.metrics.step_time.value", '"fast"', "string"),
        ("cells.0.metrics", "[]", "array"),
        ("cells.0.forks.1.blocks.begin_ns.2", "[1]", "array"),
        ("cells.0.forks.1", "7", "number"),
        ("cells.0.axes.batch", "true", "boolean"),
        ("cells.0.id", "null", "null"),
        ("cells.0", '"a"', "string"),
        ("cells", "{}", "object"),
        ("schema", '"assay-report/99"', "assay-report/99"),
        ("environment", "[]", "should be an object, is array"),
        ("environment", "[" * 100_000 + "]" * 100_000, "deep"),
    ],
)
def test_a_broken_report_is_refused_with_its_place(tmp_path: Path, path: str, value: str, said: str) -> None:
    refusal = refused(tmp_path, changed(path, value))
    assert said in refusal
    _, _, place = refusal.partition("hostile.json")
    for step in path.split("."):
        assert step in place
    assert len(refusal) < 2000


def test_a_report_without_cells_is_refused(tmp_path: Path) -> None:
    from assay_plots.__main__ import read

    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(made_report.report([])))
    with pytest.raises(ReportError, match="contains no cells"):
        read([file], "", PROGRAM)


def test_broken_files_are_refused(tmp_path: Path) -> None:
    whole = json.dumps(made_report.report([]))
    for broken in (whole[:-1], whole + "{}", "[]"):
        assert "hostile.json: " in refused(tmp_path, broken)
    assert "at line 1, column" in refused(tmp_path, whole[:-1])
    assert "run" in refused(tmp_path, whole[:-1] + ', "run": {}}').partition("hostile.json")[2]
    assert "not valid JSON" in refused(tmp_path, b"\xff\xfe")
    m = made_report.Maker()
    cell = m.cell("onednn", "graph", "bare", m.steps_forks(1e-3, 1, 1))
    assert "is not unique" in refused(tmp_path, json.dumps(made_report.report([cell, cell])))


HOSTILE_VALUES = (
    None,
    True,
    -1,
    0,
    10**18,
    1e-300,
    "",
    "\ud800<b>",
    [],
    {},
    [[[]]],
    {"a": {"a": None}},
    "ok",
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*way, key))


def test_a_report_with_any_field_replaced_is_refused_or_drawn(tmp_path: Path) -> None:
    random = Random(3)
    m = made_report.Maker()
    report = made_report.report(
        [
            m.cell("onednn", "graph", "bare", m.epoch_forks(1e-3, 2, 2), measure="epochs:2"),
            m.cell("torch", "eager", "framework", m.epoch_forks(2e-3, 2, 2), measure="epochs:2"),
            m.op("op/relu", "onednn", "bare", "256", 2048.0, 256.0),
        ]
    )
    report["cells"][1]["published"] = [made_report.everything()["cells"][1]["published"][0]]
    ways = sorted(places(report), key=lambda way: (len(way), str(way)))
    refusals = 0
    shallow = [way for way in ways if 0 < len(way) <= 4]
    for way in random.sample(shallow, 40) + random.sample(ways, 40):
        changed = deepcopy(report)
        at: Any = changed
        for step in way[:-1]:
            at = at[step]
        if way:
            at[way[-1]] = random.choice(HOSTILE_VALUES)
        path = tmp_path / "changed.json"
        path.write_text(json.dumps(changed))
        try:
            study = study_at(path)
        except ReportError as refusal:
            assert str(path) in str(refusal)
            refusals += 1
            continue
        for plot in PLOTS:
            draw(plot, study)
        findings(study), warnings(study), troubles(study), tiles(study)
        list(tables.rows(study)), list(tables.published(study))
        for one in study.reports:
            about(one), tables.environment(one.environment), tables.environment(one.run)
    assert 10 < refusals < 70


def test_a_gpu_is_drawn_next_to_the_cores(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("torch", "eager", "framework", m.epoch_forks(1e-3, 1, 2), measure="epochs:2", device="cuda")
    for i, sample in enumerate(cell["forks"][0]["samples"]):
        sample["gpu_utilisation"] = i / 11
    figure = drawn(study_of(made_report.report([cell])), "utilisation")
    assert "No GPU" not in figure.note
    shares = [row["share"] for row in rows_of(figure, "share")]
    assert (len(shares), max(shares)) == (12, 1.0)


def test_each_machine_of_a_joined_report_is_named(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.cell("onednn", "graph", "engine", m.steps_forks(1e-3, 6, 5), workload="mlp", batch=batch)
        for batch in (32, 64)
    ]
    report = made_report.report(cells)
    remedy = {"what": "a neighbor is loud", "remedy": "ask"}
    other = report["environment"] | {"cpu": {"model": "another one", "cores": 4}, "unsteady": [remedy]}
    report["environments"] = [report["environment"], other]
    for index, cell in enumerate(report["cells"]):
        cell["environment"] = index
    study = study_of(report)
    (one,) = study.reports
    assert "2 cells measured on a processor (2 cores) and on another one (4 cores) on 2026" in about(one)
    page = make_page(study, [])
    assert "<summary>Machine 1</summary>" in page
    assert "<summary>Machine 2</summary>" in page
    assert "ask" in [warned.remedy for warned in warnings(study)]


def test_warnings_of_a_fork_are_among_the_warnings(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("torch", "eager", "framework", m.epoch_forks(1e-3, 2, 2), measure="epochs:2", device="cuda")
    for fork in cell["forks"]:
        fork["warnings"] = ["process 1 (x) used the GPU while steps ran: stop it"]
    said = {warned.what: warned.remedy for warned in warnings(study_of(made_report.report([cell])))}
    assert said["2 forks: process 1 (x) used the GPU while steps ran"] == "stop it"


def test_phases_cover_the_whole_fork_without_a_gap(everything: Study) -> None:
    rows = rows_of(drawn(everything, "utilisation"), "phase")
    first = rows[: next(i for i, row in enumerate(rows) if i and row["begin"] == 0)]
    assert [row["begin"] for row in first[1:]] == [row["end"] for row in first[:-1]]
    assert {row["phase"] for row in first} == {"timed", "other"}


def test_a_deep_environment_is_shown_flat() -> None:
    deep: Any = "end"
    for _ in range(5000):
        deep = {"a": deep}
    assert tables.environment(deep) == [(clean("a " * 5000, 120), "end")]


def test_the_extremes_of_numbers_are_drawn(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.cell(name, "eager", "framework", m.steps_forks(step, 2, 2), workload="op/x", size="1", cache="warm")
        | {"work": {"flops": 1e99, "bytes": 1e99, "peak_flops": 1.0, "copy_bandwidth": 1e-99}}
        for name, step in (("a", 1e-9), ("b", 1e5))
    ]
    plain = m.cell("c", "eager", "framework", m.steps_forks(1.0, 2, 2))
    for metric in plain["metrics"].values():
        if metric["value"] is not None:
            metric["value"] = 1e100
    study = study_of(made_report.report([*cells, plain]))
    for plot in PLOTS:
        figure = draw(plot, study)
        if figure.panels:
            svg = figure_svg(figure, [spec_of(p) for p in figure.panels])
            ElementTree.fromstring(svg)


# ---- the program itself says the same


def test_ratios_and_taxes_are_those_of_assay_show() -> None:
    """The golden table was written by the program from the same report."""
    study = study_at(GOLDEN)
    of_show = {}
    for line in (ROOT / "tests/cli/data/show.console").read_text(encoding="utf-8").splitlines():
        ratio = re.search(r"([\d.]+)x \[([\d.]+), ([\d.]+)\]", line)
        words = line.split()
        if ratio and words[0].isdigit():
            tax = re.search(r"([+-]\d+) % \[", line)
            of_show[f"{words[1]} {words[2]}"] = (*map(float, ratio.groups()), tax.group(1) if tax else None)
    assert of_show["torch compile"] == (4.0, 4.0, 4.0, "+300")
    (group,) = study.groups
    for cell in group.cells:
        ratio = cell.ratio
        if cell.series not in of_show:
            assert ratio is None, cell.series
            continue
        assert ratio is not None
        value, lower, upper, tax = of_show[cell.series]
        assert (ratio.value, ratio.lower, ratio.upper) == pytest.approx((value, lower, upper), rel=5e-3)
        assert (tax is not None) == cell.taxed
        if tax:
            assert percent(ratio.value) == f"{tax} %"


def test_the_made_reports_are_reports(tmp_path: Path) -> None:
    made = {"everything": made_report.everything(), "studies": made_report.studies()}
    for name, report in (made | {"large": made_report.large(8)}).items():
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(report))
        done = subprocess.run([PROGRAM, "validate", path], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


# ---- the program


def plot(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "assay_plots", *map(str, arguments)]
    environment = {
        "PYTHONPATH": str(ROOT / "scripts"),
        "PATH": "/usr/bin:/bin",
        "ASSAY_PROGRAM": str(PROGRAM),
        "HTTPS_PROXY": "http://127.0.0.1:1",
    }
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)


def test_files_are_named_and_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        done = plot(GOLDEN, "--out", tmp_path / name, "--only", "tax,noise")
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"tax.svg", "tax.png", "noise.svg", "noise.png", "index.html"}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert (tmp_path / "a/tax.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing.json"], "nothing.json: No such file"),
        ([str(GOLDEN), "--only", "nonsense"], "no nonsense: there are throughput"),
        ([str(GOLDEN), "--filter", "nonsense"], "no cell's id contains 'nonsense'"),
        ([str(GOLDEN), str(GOLDEN)], "the same report is given twice"),
    ],
)
def test_bad_input_ends_with_two_and_a_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = plot(*arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_program_it_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ASSAY_PROGRAM", None), ("PATH", str(tmp_path))):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("assay_plots.analysis.ROOT", tmp_path)
    with pytest.raises(ReportError, match="run scripts/quickstart"):
        find_program()
    for build in ("dev", "release"):
        program = tmp_path / "build" / build / "assay"
        program.parent.mkdir(parents=True)
        program.touch(mode=0o755)
        assert find_program() == program
    monkeypatch.setenv("ASSAY_PROGRAM", str(PROGRAM))
    assert find_program() == PROGRAM
    with pytest.raises(ReportError, match="nothing: no such program"):
        find_program(tmp_path / "nothing")


def test_another_form_of_the_analysis_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "assay"
    program.write_text("""#!/bin/sh\nprintf '{"schema": "assay-analysis/99",\\n"cells": [\\n]}\\n'\n""")
    program.chmod(0o755)
    with pytest.raises(ReportError, match="assay-analysis/99; these pictures need assay-analysis/1"):
        read_study([GOLDEN], program=program)


def test_the_page_of_a_study_has_its_text_claims_and_pictures(tmp_path: Path) -> None:
    report = made_report.studies()
    report["cells"] = report["cells"][-2:]
    path = tmp_path / "plans.json"
    path.write_text(json.dumps(report))
    done = plot(path, "--study", "mxnet-memory", "--format", "html", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    sections = re.findall(r'<section id="([a-z_-]+)"', page)
    assert sections[:2] == ["summary", "warnings"]
    assert [name for name in sections if name in ("study", "claims", "plans", "memory")] == [
        *("study", "claims", "plans", "memory")
    ]
    assert "<title>MXNet&#x27;s documents: memory plans over networks</title>" in page
    assert "holds" in page[page.index('id="claims"') : page.index('id="plans"')]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--study", "nonsense"], "unknown study nonsense; known are smartia-table-4"),
        (["--study", "mxnet-memory", "--filter", "a"], "--study judges whole reports: leave out --filter"),
    ],
)
def test_a_study_that_cannot_be_drawn_is_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = plot(GOLDEN, *arguments, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert said in done.stderr
