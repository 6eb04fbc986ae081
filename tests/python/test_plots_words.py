"""scripts/plot: what is left out and why; findings, warnings, labels and numbers in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import made_report
import pytest
from contrast import contrast

pytest.importorskip("plotted")

from assay_plots import tables
from assay_plots.figure import draw
from assay_plots.findings import findings
from assay_plots.page import about, make_page
from assay_plots.plots import PLOTS
from assay_plots.report import Item, Study
from assay_plots.summary import tiles, troubles, warnings
from assay_plots.text import clean, shown, shown_interval
from assay_plots.theme import LIMIT, PAPER, PUBLISHED, SERIES
from plotted import GOLDEN, OF_STUDIES, Json, drawn, rows_of, study_at


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


def test_the_summary_names_no_fastest_below_six_rounds(study_of: Callable[[Json], Study]) -> None:
    assert findings(study_of(made_report.large(8))) == []


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


def ratio_of(study_of: Callable[[Json], Study], ratios: list[int]) -> Item:
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


def test_a_deep_environment_is_shown_flat() -> None:
    deep: Any = "end"
    for _ in range(5000):
        deep = {"a": deep}
    assert tables.environment(deep) == [(clean("a " * 5000, 120), "end")]
