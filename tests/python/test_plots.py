"""scripts/plot: what is drawn of a report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import made_report
import pytest

pytest.importorskip("plotted")

from assay_plots.figure import draw
from assay_plots.plots import PLOTS
from assay_plots.render import figure_svg, spec_of
from assay_plots.report import Study
from assay_plots.theme import DISTINCT, colour_of, dash_of, shape_of
from plotted import OF_STUDIES, ROOT, Json, drawn, rows_of, study_at


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


def test_up_to_32_series_have_codes_of_their_own() -> None:
    lines = {(colour_of(i), tuple(dash_of(i))) for i in range(DISTINCT)}
    points = {(colour_of(i), shape_of(i)) for i in range(DISTINCT)}
    assert DISTINCT == len(lines) == len(points) == 32


def test_eleven_series_differ_in_the_picture_and_in_its_legend(
    study_of: Callable[[Json], Study],
) -> None:
    m = made_report.Maker()
    cells = []
    for i in range(11):
        forks = m.steps_forks(1e-3 * (i + 1), 6, 5)
        for fork in forks:
            fork["latencies_ns"] = [1_000_000 * (i + 1) + k for k in range(700)]
        cells.append(m.cell(f"backend{i}", "eager", "framework", forks, task="infer", batch=1))
    study = study_of(made_report.report(cells) | {"rules": 2})  # so that its metrics are derived
    assert len(study.series) == 11
    (panel,) = drawn(study, "latency").panels
    layers = [layer["encoding"] for layer in spec_of(panel)["layer"]]
    line = next(layer for layer in layers if "strokeDash" in layer)
    points = next(layer for layer in layers if "shape" in layer)
    codes = [points[channel]["scale"]["range"] for channel in ("color", "shape")]
    assert len(set(zip(*codes, strict=True))) == 11
    assert points["color"]["legend"] == points["shape"]["legend"] is not None, "the two join in one legend"
    dashes = map(tuple, line["strokeDash"]["scale"]["range"])
    assert len(set(zip(codes[0], dashes, strict=False))) == 11


def test_the_legend_names_every_series_that_has_a_code_of_its_own(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.cell(f"backend{i}", "eager", "framework", m.steps_forks(1e-3, 6, 5), batch=batch)
        for i in range(DISTINCT)
        for batch in (32, 64)
    ]
    (panel,) = drawn(study_of(made_report.report(cells)), "batch").panels
    legends = [
        layer["encoding"]["color"]["legend"]
        for layer in spec_of(panel)["layer"]
        if layer["encoding"].get("color", {}).get("legend")
    ]
    assert legends
    assert all(legend["symbolLimit"] >= DISTINCT for legend in legends)


def test_bars_of_more_series_than_colours_become_points(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cells = [
        m.cell(f"backend{i}", "eager", "framework", m.steps_forks(1e-3, 6, 5), batch=batch)
        for i in range(9)
        for batch in (32, 64)
    ]
    (panel, *_) = drawn(study_of(made_report.report(cells)), "bars").panels
    assert spec_of(panel)["layer"][0]["mark"]["type"] == "point"
    assert len(set(spec_of(panel)["layer"][0]["encoding"]["shape"]["scale"]["range"])) > 1


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
    assert study.groups[0].ranked() == [], "no rank across reports"
    timed = [cell for cell in study.groups[0].in_rank if cell.time is not None]
    across = [cell.to_fastest for cell in timed if cell.report != timed[0].report]
    assert across
    assert all(ratio is not None and (ratio.n, ratio.lower) == (0, None) for ratio in across)
    assert drawn(study, "tax").panels


def test_a_gpu_is_drawn_next_to_the_cores(study_of: Callable[[Json], Study]) -> None:
    m = made_report.Maker()
    cell = m.cell("torch", "eager", "framework", m.epoch_forks(1e-3, 1, 2), measure="epochs:2", device="cuda")
    for i, sample in enumerate(cell["forks"][0]["samples"]):
        sample["gpu_utilisation"] = i / 11
    figure = drawn(study_of(made_report.report([cell])), "utilisation")
    assert "No GPU" not in figure.note
    shares = [row["share"] for row in rows_of(figure, "share")]
    assert (len(shares), max(shares)) == (12, 1.0)


def test_phases_cover_the_whole_fork_without_a_gap(everything: Study) -> None:
    rows = rows_of(drawn(everything, "utilisation"), "phase")
    first = rows[: next(i for i, row in enumerate(rows) if i and row["begin"] == 0)]
    assert [row["begin"] for row in first[1:]] == [row["end"] for row in first[:-1]]
    assert {row["phase"] for row in first} == {"timed", "other"}


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
