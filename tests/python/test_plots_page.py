"""The page of scripts/plot in a browser: it draws, sorts, filters, and runs nothing that a report says."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import made_report
import pytest
from browser import Browser, chromium
from contrast import contrast

pytest.importorskip("plotted")

from assay_plots.figure import draw
from assay_plots.page import make_page
from assay_plots.plots import PLOTS
from assay_plots.render import spec_of
from plotted import ROOT, Json, study_of

EVIL = "<script>window.pwned=1</script><img src=x onerror=window.pwned=2>\"'`${window.pwned=3}"
EVIL += "</script></style></title>{{x}}]]><!--<svg onload=window.pwned=4>"


def write_page(folder: Path, report: Json) -> Path:
    study = study_of(report, folder)
    figures = [draw(plot, study) for plot in PLOTS]
    page = folder / "index.html"
    page.write_text(
        make_page(study, [(f, [spec_of(p) for p in f.panels]) for f in figures]), encoding="utf-8"
    )
    return page


def hostile() -> Json:
    report = made_report.everything()
    for cell in report["cells"]:
        for field in ("id", "reproduce", "backend_version"):
            cell[field] += EVIL
        for axis in ("workload", "backend", "mode", "dataset"):
            cell["axes"][axis] += EVIL
        cell["reason"] = EVIL if cell["status"] != "ok" else ""
        cell["flags"] = [flag + EVIL for flag in cell["flags"]]
        cell["libraries"] = [{"name": EVIL, "version": EVIL}]
        cell["metrics"] = {
            name: metric | {"unit": metric["unit"]} for name, metric in cell["metrics"].items()
        }
        cell["metrics"][EVIL] = made_report.metric([1.0], EVIL[:9], "number")
        names = cell["equivalence"]["tensors"].get("name", [])
        names[:] = [name + EVIL for name in names]
        for entry in cell["published"]:
            entry["source"] = entry["statement"] = EVIL
            entry["to"] = entry["to"] + EVIL if entry["to"] else None
    report["run"] |= {"config": {"title": EVIL}, "version": EVIL, "command_line": [EVIL]}
    report["environment"] |= {
        EVIL: EVIL,
        "cpu": {"model": EVIL, "cores": 2},
        "unsteady": [{"what": EVIL, "remedy": EVIL}],
    }
    return report


# ---- without a browser


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("page"), made_report.everything())


@pytest.fixture(scope="module")
def hostile_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_page(tmp_path_factory.mktemp("hostile"), hostile())


def without_scripts(text: str) -> str:
    return re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)


def test_the_page_names_nothing_that_it_would_load(page: Path) -> None:
    text = without_scripts(page.read_text(encoding="utf-8"))
    assert not re.search(r"""(src|href)=(?!["']?(data:|#))""", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_the_policy_allows_only_the_scripts_of_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    assert len(re.findall(r"'sha256-[^']+'", policy.group(1))) == 2
    assert "unsafe-eval" not in policy.group(1)
    assert len(re.findall(r"<script>", text)) == 2


def test_hostile_texts_end_no_element(hostile_page: Path) -> None:
    text = without_scripts(hostile_page.read_text(encoding="utf-8"))
    assert "<script>window.pwned" not in text
    assert "<img src=x" not in text
    assert "<svg onload" not in text


def test_texts_of_the_page_have_contrast_in_both_modes() -> None:
    css = (ROOT / "scripts/assay_plots/page/page.css").read_text(encoding="utf-8")
    modes = [dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{3,6})", rule)) for rule in css.split("}")[:2]]
    for colours in modes:
        backs = {"good": "good-back", "bad": "bad-back", "doubt": "doubt-back"}
        pairs = [
            (text, back)
            for text in ("ink", "faint", "link", "good", "bad", "doubt")
            for back in ("card", "back")
        ]
        for text, back in [
            *pairs,
            *backs.items(),
            ("ink", "doubt-back"),
            ("ink", "hover"),
            ("faint", "hover"),
        ]:
            assert contrast(colours[text], colours[back]) >= 4.5, f"{text} on {back}: {colours}"


# ---- in a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    program = chromium()
    if program is None:
        pytest.skip("no Chromium: scripts/setup --browser installs one")
    with Browser(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


def draw_all(browser: Browser) -> None:
    """Make the window as high as the page, so that every chart comes into sight."""
    for _ in range(2):
        height = int(browser.evaluate("document.documentElement.scrollHeight"))
        width = int(browser.evaluate("window.innerWidth"))
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        browser.wait("[...document.querySelectorAll('[data-chart]')].every(c => c.dataset.drawn)")


def picture(browser: Browser, name: str) -> None:
    """Leave a screenshot to be looked at where $ASSAY_SCREENSHOTS says."""
    folder = os.environ.get("ASSAY_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        browser.screenshot(Path(folder) / f"{name}.png", whole=True)


@pytest.mark.parametrize(
    ("name", "width", "dark"), [("desk", 1300, False), ("dark", 1300, True), ("phone", 390, False)]
)
def test_every_chart_is_drawn_and_nothing_is_loaded(
    browser: Browser, page: Path, name: str, width: int, dark: bool
) -> None:
    browser.open(page, width, dark=dark)
    draw_all(browser)
    picture(browser, name)
    states = browser.evaluate("[...document.querySelectorAll('[data-chart]')].map(c => c.dataset.drawn)")
    assert len(states) > 30
    assert set(states) == {"yes"}
    assert browser.evaluate("document.querySelectorAll('.chart svg.marks').length") == len(states)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width, "the page scrolls sideways"
    back = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == dark
    assert browser.errors() == []
    assert browser.requests() == []


def give(browser: Browser, selector: str, value: str, event: str) -> None:
    """Fill in a field as a person would."""
    field = f"document.querySelector({json.dumps(selector)})"
    browser.evaluate(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('{event}'))")


def column(browser: Browser, number: int) -> list[str]:
    cells = f"[...document.querySelectorAll('#cells-table tbody tr')].map(r => r.cells[{number}].textContent)"
    found: list[str] = browser.evaluate(cells)
    return found


def head(browser: Browser, name: str) -> int:
    names = browser.evaluate(
        "[...document.querySelector('#cells-table thead tr').cells].map(h => h.textContent)"
    )
    return int(names.index(name))


def test_tables_sort_by_value_and_keep_what_has_none_last(browser: Browser, page: Path) -> None:
    browser.open(page)
    step = head(browser, "step")
    click = f"document.querySelectorAll('#cells-table thead th')[{step - 1}].querySelector('button').click()"
    browser.evaluate(click)
    up = column(browser, step)
    assert up[0].startswith("1.") and up[0].split()[1] == "µs"
    assert up[-2:] == ["", ""]
    browser.evaluate(click)
    down = column(browser, step)
    assert down[-2:] == ["", ""]
    assert down[:-2] == up[-3::-1]
    sort = browser.evaluate(
        f"document.querySelectorAll('#cells-table thead th')[{step - 1}].getAttribute('aria-sort')"
    )
    assert sort == "descending"


def test_tables_filter_by_words_and_by_choice(browser: Browser, page: Path) -> None:
    browser.open(page)
    assert browser.evaluate("document.getElementById('cells-count').textContent") == "37 rows"
    give(browser, "#cells-search", "torch gemm", "input")
    browser.wait("document.getElementById('cells-count').textContent === '4 of 37 rows'")
    assert set(column(browser, head(browser, "backend"))) == {"torch"}
    give(browser, "#cells-search", "", "input")
    give(browser, "[data-column=status]", "=unavailable", "change")
    browser.wait("document.getElementById('cells-count').textContent === '1 of 37 rows'")
    assert column(browser, head(browser, "backend")) == ["tensorflow"]


def test_a_row_unfolds_to_the_command_that_measures_it_again(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.evaluate("document.querySelector('#cells-table .open').click()")
    assert browser.evaluate("document.querySelector('#cells-table .details pre').textContent") == (
        "assay run --workload mlp --backend onednn --mode graph"
    )
    assert "step_time" in browser.evaluate("document.querySelector('#cells-table .details').textContent")
    browser.evaluate("document.querySelector('#cells-table .open').click()")
    assert browser.evaluate("document.querySelector('#cells-table .details') === null")


def test_the_button_turns_the_page_and_its_charts_dark(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.wait("document.querySelector('[data-chart=throughput-0]').dataset.drawn === 'yes'")
    drawing = "document.querySelector('[data-chart=throughput-0] svg')"
    dark = f"({drawing}.outerHTML + {drawing}.style.cssText).match(/#16191f|rgb.22, 25, 31/) !== null"
    assert not browser.evaluate(dark)
    browser.evaluate("document.getElementById('theme').click()")
    browser.wait(dark)
    assert browser.evaluate("document.getElementById('theme').textContent") == "Light"


CUT = """[...document.querySelectorAll('[data-chart]')].flatMap(chart => {
  const svg = chart.querySelector('svg.marks')
  const box = svg.getBoundingClientRect()
  const texts = [...svg.querySelectorAll('text')].filter(text => text.textContent.trim())
  return texts.map(text => [text.textContent, text.getBoundingClientRect()])
    .map(([name, text]) => [name, Math.round(Math.max(box.left - text.left, text.right - box.right))])
    .filter(([, beyond]) => beyond > 1)
    .map(([name, beyond]) => `${chart.dataset.chart}: ${name}: ${beyond} px`)
})"""


@pytest.mark.parametrize("width", [1300, 390])
def test_no_text_is_cut(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width)
    draw_all(browser)
    assert browser.evaluate(CUT) == []
    assert browser.evaluate("document.getElementById('theme').offsetHeight") < 45, "one line"
    ends = "Math.max(...[...document.querySelectorAll('nav a')].map(a => a.getBoundingClientRect().right))"
    assert browser.evaluate(ends) <= width


def test_without_scripts_pictures_and_tables_are_there(browser: Browser, page: Path) -> None:
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page)
        assert browser.evaluate(
            "[...document.querySelectorAll('.chart img')].every(i => i.naturalWidth > 100)"
        )
        assert browser.evaluate("document.querySelectorAll('#cells-table tbody tr').length") == 37
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)


def test_nothing_that_a_report_says_is_executed(browser: Browser, hostile_page: Path) -> None:
    browser.open(hostile_page)
    draw_all(browser)
    browser.evaluate("document.querySelectorAll('#cells-table .open').forEach(b => b.click())")
    # A tooltip is made of a report's texts too.
    browser.evaluate(
        "document.querySelectorAll('.chart svg path').forEach("
        "p => p.dispatchEvent(new MouseEvent('mousemove', {bubbles: true})))"
    )
    picture(browser, "hostile")
    assert browser.evaluate("typeof window.pwned") == "undefined"
    assert browser.evaluate("document.querySelectorAll('img[src=x], svg[onload]').length") == 0
    assert set(
        browser.evaluate("[...document.querySelectorAll('[data-chart]')].map(c => c.dataset.drawn)")
    ) == {"yes"}
    assert browser.errors() == []
    assert browser.requests() == []
