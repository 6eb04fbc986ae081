"""One self-contained page with everything; text of a report never becomes code in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import vl_convert

from assay_plots import tables
from assay_plots.figure import Figure
from assay_plots.findings import findings
from assay_plots.render import Spec, panel_svg, vega_lite_version
from assay_plots.report import Report, Study
from assay_plots.summary import tiles, troubles, warnings
from assay_plots.text import clean, plural, shown
from assay_plots.theme import config

STATIC_ROWS = 200  # of the table, for readers without scripts

GLOSSARY = (
    ("cell", "one row: a network, a backend, its mode and everything else that was set"),
    (
        "backend, mode",
        "what executed it, such as torch; and how: operator by operator (eager) or compiled ahead (graph, …)",
    ),
    (
        "bare",
        "only a vendor's library, such as onednn primitives; an engine (onednn graph) adds its own kernels "
        "and is compared like a framework",
    ),
    ("tax", "the additional time of a framework over the bare library: +100 % is twice the time"),
    ("fork", "one fresh process that measured the cell; numbers are medians over forks, not over iterations"),
    (
        "interval",
        "[low, high] contains the true median with at least 95 % confidence, for any kind of noise; "
        "needs six forks",
    ),
    (
        "ratio",
        "time per step divided by that of the best bare library (the base), paired within rounds",
    ),
    (
        "oracle, of bound",
        "every cell is compared with a plain computation in double precision; 100 % of the bound is all that "
        "rounding explains",
    ),
    ("disturbed", "other programs ran, or the processor was slowed: the number is shown but not ranked"),
)


def data_block(name: str, value: Any) -> str:
    """Embed data for a script; no text in it can end the block."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f'<script type="application/json" id="{name}">{text.replace("<", chr(92) + "u003c")}</script>'


def _resource(name: str) -> str:
    return files("assay_plots").joinpath("page", name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that can be embedded in a page."""
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vega_lite_version())
    if re.search(r"</script|<!--|\r", bundle, re.IGNORECASE):
        raise RuntimeError("the bundle of Vega could end its own script block")
    return bundle


def section(name: str, title: str, body: str) -> str:
    head = f'<h2 id="{name}-h">{escape(title)}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-h">{head}\n{body}\n</section>'


def plain_list(items: Iterable[str]) -> str:
    return '<ul class="plain">' + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def plain_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        "<tr>" + "".join(f'<td class="wide">{escape(c)}</td>' for c in row) + "</tr>\n" for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0" role="region" aria-label="table">{table}</div>'


def _still(svg: str, what: str) -> str:
    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{escape(what)}" src="data:image/svg+xml;base64,{data}">'


def figure_section(figure: Figure, specs: Sequence[Spec]) -> tuple[str, str]:
    """Return a figure's section, and the data blocks of its charts."""
    plot = figure.plot
    panels: list[str] = []
    blocks: list[str] = []
    for i, (panel, spec) in enumerate(zip(figure.panels, specs, strict=True)):
        name = f"{plot.name}-{i}"
        still = _still(panel_svg(spec), f"{plot.title}: {panel.heading.title}")
        panels.append(
            f'<div class="panel"><h3>{escape(panel.heading.title)}</h3>'
            f'<p class="about">{escape(panel.heading.about)}</p>'
            f'<div class="chart" data-chart="{name}">{still}</div></div>'
        )
        blocks.append(data_block(f"spec-{name}", spec))
    note = f'<p class="note">{escape(figure.note)}</p>' if figure.note else ""
    body = f'<p class="caption">{escape(plot.caption)}</p>{note}<div class="panels">{"".join(panels)}</div>'
    return section(plot.name, plot.title, body), "".join(blocks)


def summary_section(study: Study) -> str:
    boxes = "".join(
        f'<li class="{tile.tone}"><b>{escape(tile.value)}</b><span>{escape(tile.what)}</span></li>'
        for tile in tiles(study)
    )
    found = findings(study)
    said = (
        plain_list(found)
        if found
        else "<p>No cell of this report can be ranked, so none is called the fastest.</p>"
    )
    words = "".join(f"<dt><b>{escape(w)}</b></dt><dd>{escape(what)}</dd>" for w, what in GLOSSARY)
    glossary = f"<details><summary>What the words mean</summary><dl>{words}</dl></details>"
    body = f'<ul class="tiles">{boxes}</ul>{said}{glossary}'
    return section("summary", "In short", body)


def warnings_section(study: Study) -> str:
    lines = [
        f'<p class="warned"><b>{escape(w.what)}</b>{f" – {escape(w.remedy)}" if w.remedy else ""}</p>'
        for w in warnings(study)
    ]
    return section("warnings", "Warnings", "".join(lines)) if lines else ""


def troubles_section(study: Study) -> str:
    found = troubles(study)
    if not found:
        return ""
    rows = [
        (t.status, t.reason, f"{plural(len(t.cells), 'cell')}: {', '.join(c.id for c in t.cells[:3])}"
         + (", …" if len(t.cells) > 3 else ""), t.cells[0].reproduce)
        for t in found[:200]
    ]  # fmt: skip
    more = (
        f'<p class="note">and {len(found) - 200} more reasons: filter the table by status.</p>'
        if len(found) > 200
        else ""
    )
    return section(
        "troubles",
        "Cells that were not measured, and why",
        plain_table(("status", "reason", "cells", "measure it again"), rows) + more,
    )


def published_section(study: Study) -> str:
    rows = [(b.cell, b.metric, b.measured, b.published, b.source) for b in tables.published(study)]
    if not rows:
        return ""
    shown_rows = rows[:500]
    more = f'<p class="note">{len(rows) - 500} more in `assay show`.</p>' if len(rows) > 500 else ""
    caption = (
        '<p class="caption">Other machines and versions: compare ratios and shapes rather than times.</p>'
    )
    table = plain_table(("cell", "metric", "measured here", "published", "source"), shown_rows)
    return section("published", "Measured and published", caption + table + more)


def cells_section(study: Study) -> tuple[str, str]:
    """Return the table's section, with its first rows for readers without scripts, and its data block."""
    rows: list[list[tables.Entry]] = []
    details: list[dict[str, Any]] = []
    for row, about in tables.rows(study):
        rows.append(row)
        details.append(about)
    kept = tables.shown_columns(rows)
    columns = [tables.COLUMNS[i] for i in kept]
    rows = [[row[i] for i in kept] for row in rows]
    heads = "".join(
        f'<th scope="col"{" class=number" if column.number else ""} title="{escape(column.about)}">'
        f"{escape(column.name)}</th>"
        for column in columns
    )
    body: list[str] = []
    for row, about in list(zip(rows, details, strict=True))[:STATIC_ROWS]:
        again = f"<details><summary>+</summary><pre>{escape(about['reproduce'])}</pre></details>"
        entries = [entry if isinstance(entry, str) else entry[0] for entry in row]
        fields = "".join(
            f"<td{' class=number' if column.number else ''}>{escape(entry)}</td>"
            for column, entry in zip(columns, entries, strict=True)
        )
        body.append(f"<tr><td>{again}</td>{fields}</tr>")
    data = {
        "columns": [asdict(column) for column in columns],
        "rows": rows,
        "details": details,
    }
    html = (
        '<p class="caption">Click a heading to sort; + unfolds all metrics of a row and the command that '
        'measures it again. Grey rows are not ranked.</p><div class="tools" id="cells-tools"></div>'
        '<div class="scroll" tabindex="0" role="region" aria-label="all cells">'
        '<table id="cells-table"><thead><tr><td></td>'
        f"{heads}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        '<p><button type="button" id="cells-more" hidden>Show more</button></p>'
    )
    if len(rows) > STATIC_ROWS:
        said = f"The first {STATIC_ROWS} of {len(rows)} rows; with scripts enabled the page shows all."
        html += f"<noscript><p>{said}</p></noscript>"
    return section("cells", "All cells", html), data_block("cells-data", data)


def left_out_section(figures: Sequence[Figure]) -> str:
    rows = [(figure.plot.title, figure.left_out) for figure in figures if figure.left_out]
    return (
        section("left-out", "Pictures that are left out", plain_table(("picture", "why"), rows))
        if rows
        else ""
    )


def environment_section(study: Study) -> str:
    parts: list[str] = []
    for report in study.reports:
        title = f"<h3>{escape(report.label)}</h3>" if len(study.reports) > 1 else ""
        machines = [
            (name, tables.environment({k: v for k, v in machine.items() if k != "unsteady"}))
            for name, machine in report.named_machines
        ]
        run = tables.environment({k: v for k, v in report.run.items() if k != "config"})
        parts.append(
            title
            + "".join(
                f"<details><summary>{escape(name)}</summary>{plain_table(('what', 'value'), facts)}</details>"
                for name, facts in machines
            )
            + "<details><summary>Run: command, build, data sets</summary>"
            f"{plain_table(('what', 'value'), run)}</details>"
        )
    return section("environment", "Environment", "".join(parts))


def hosts_section(study: Study) -> str:
    """Return a table of the machines of ranks."""
    rows = [
        (
            group.heading.title,
            cell.series,
            host.name,
            ", ".join(str(rank) for rank in host.ranks),
            shown(host.step_time, "duration", "s"),
            "-" if host.local_step_time is None else shown(host.local_step_time, "duration", "s"),
            f"{100 * host.taken:.1f} %",
            f"{host.memory / 2**20:.0f} MiB",
        )
        for group in study.groups
        for cell in group.in_rank
        for host in cell.host_shares
    ]
    times = ("step of the slowest", "step alone", "taken by others")
    columns = ("cell", "backend", "machine", "ranks", *times, "memory")
    return section("hosts", "Machines of ranks", plain_table(columns, rows)) if rows else ""


def _text_at(tree: Any, *path: str) -> str:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return clean(tree) if isinstance(tree, str) else ""


def _duration(report: Report) -> str:
    try:
        ends = [
            datetime.fromisoformat(_text_at(report.run, name).replace("Z", "+00:00"))
            for name in ("start", "end")
        ]
        return " in " + shown((ends[1] - ends[0]).total_seconds(), "duration", "s")
    except (ValueError, TypeError, OverflowError):
        return ""


def _machine(environment: dict[str, Any]) -> str:
    cpu = environment.get("cpu")
    cores = cpu.get("cores") if isinstance(cpu, dict) else None
    machine = _text_at(environment, "cpu", "model") or "an unnamed machine"
    if isinstance(cores, int) and not isinstance(cores, bool) and 0 < cores < 2**31:
        machine += f" ({plural(cores, 'core')})"
    gpus = environment.get("gpus")
    names = (
        [_text_at(gpu, "model") for gpu in gpus if isinstance(gpu, dict)] if isinstance(gpus, list) else []
    )
    if any(names):
        machine += ", " + ", ".join(dict.fromkeys(name for name in names if name))
    return machine


def about(report: Report) -> str:
    """Return a line that says where and when a report was made."""
    machine = " and on ".join(dict.fromkeys(_machine(environment) for environment in report.machines))
    version = _text_at(report.run, "version")
    day = _text_at(report.run, "start")[:10]
    when = (f" on {day}" if day else "") + _duration(report)
    return f"{plural(report.cells, 'cell')} measured on {machine}{when}, by Assay {version}."


Section = tuple[str, str, str]  # name, title in the contents, HTML


def title_of(study: Study) -> str:
    titles = [_text_at(report.run, "config", "title") for report in study.reports]
    if len(titles) == 1:
        return titles[0] or f"Assay: {study.reports[0].label}"
    return "Assay: " + " and ".join(report.label for report in study.reports)


def make_page(
    study: Study,
    figures: Sequence[tuple[Figure, Sequence[Spec]]],
    title: str = "",
    more: Sequence[Section] = (),
) -> str:
    """Write the page; `more` are sections of a study, with its values, that come before the pictures."""
    drawn = [(figure, figure_section(figure, specs)) for figure, specs in figures if figure.panels]
    cells, cells_data = cells_section(study)
    parts = [
        ("summary", "In short", summary_section(study)),
        ("warnings", "Warnings", warnings_section(study)),
        *more,
        *((figure.plot.name, figure.plot.title, html) for figure, (html, _) in drawn),
        ("cells", "All cells", cells),
        ("published", "Published", "" if more else published_section(study)),
        ("troubles", "Not measured", troubles_section(study)),
        ("left-out", "Left out", left_out_section([figure for figure, _ in figures])),
        ("hosts", "Machines of ranks", hosts_section(study)),
        ("environment", "Environment", environment_section(study)),
    ]
    contents = " ".join(f'<a href="#{name}">{escape(title)}</a>' for name, title, html in parts if html)
    bundle, program = vega_bundle(), _resource("page.js")
    scripts = [data_block("themes", {"light": config("light"), "dark": config("dark")}), cells_data]
    scripts += [blocks for _, (_, blocks) in drawn]
    scripts += [f"<script>{script}</script>" for script in (bundle, program)]
    return Template(_resource("page.html")).substitute(
        title=escape(title or title_of(study)),
        lead=escape(
            " ".join(f"{r.label}: {about(r)}" if len(study.reports) > 1 else about(r) for r in study.reports)
        ),
        sources=escape(", ".join(report.label for report in study.reports)),
        style=_resource("page.css"),
        script_hashes=f"{_hash(bundle)} {_hash(program)}",
        contents=contents,
        sections="\n".join(html for _, _, html in parts if html),
        scripts="\n".join(scripts),
    )
