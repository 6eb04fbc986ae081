"""Rows of the page's tables: the shown text, the value it is sorted by, and the details below it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from assay_plots.plots.tax import percent
from assay_plots.report import Cell, Metric, Published, Study
from assay_plots.text import clean, shown, shown_interval


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    about: str = ""  # an explanation for readers
    number: bool = False
    choice: bool = False  # offered as a filter


COLUMNS = (
    Column("workload", choice=True),
    Column("size"),
    Column("batch", number=True),
    Column("backend", choice=True),
    Column("mode", "eager: operator by operator; graph and the others: compiled ahead", choice=True),
    Column("status", "ok, or why it was not measured; flags say what disturbed it", choice=True),
    Column("step", "median time of one step, with its interval", number=True),
    Column("samples/s", "median, with its interval", number=True),
    Column(
        "ratio", "time per step over that of the base: the best bare library, else the fastest", number=True
    ),
    Column("tax", "additional time of a framework over the bare library", number=True),
    Column("of bound", "error against the oracle, as a share of what rounding can explain", number=True),
    Column("accuracy", "on the test set, or else on the validation or training set", number=True),
    Column("first epoch", "with compilation", number=True),
    Column("memory", "peak, of the device or of the process", number=True),
    Column("forks", "fresh processes that ended well", number=True),
    Column("task", choice=True),
    Column("precision", choice=True),
    Column("device", choice=True),
)
Entry = tuple[str, float | None] | str  # the shown text; the value that it is sorted by, if that is a number


def _metric(cell: Cell, *names: str) -> Entry:
    for name in names:
        metric = cell.metrics.get(name)
        if metric is not None:
            return text_of(metric), metric.value
    return ("", None)


def text_of(metric: Metric) -> str:
    return metric.text


def _compared(study: Study, cell: Cell) -> tuple[Entry, Entry]:
    ratio = cell.ratio
    if ratio is None or cell.base is None:
        return ("", None), ("", None)
    if study.all_cells[cell.base] is cell:
        return ("1 (base)", 1.0), ("", None)
    text = shown_interval(ratio.value, ratio.lower, ratio.upper, "ratio", "1")
    tax: Entry = (percent(ratio.value), ratio.value - 1) if cell.taxed else ("", None)
    return (text, ratio.value), tax


def _equivalence(cell: Cell) -> Entry:
    worst = cell.equivalence.worst
    if not cell.equivalence.checked:
        said = "oracle" if cell.kind == "oracle" else "unchecked"
        return (said if cell.status == "ok" else "", None)
    if not cell.equivalence.passed:
        return ("wrong", worst if worst is not None else 1e300)
    return (f"{100 * worst:.0f} %", worst) if worst is not None else ("equal", 0.0)


def row_of(study: Study, cell: Cell) -> list[Entry]:
    a = cell.axes
    ratio, tax = _compared(study, cell)
    ok = sum(fork.status == "ok" for fork in cell.forks)
    status = cell.status if not cell.flags else f"{cell.status}: {', '.join(cell.flags)}"
    return [
        a["workload"],
        a["size"],
        ("", None) if cell.is_op else (a["batch"], float(cell.batch)),
        a["backend"],
        cell.mode,
        status,
        _metric(cell, "step_time"),
        ("", None) if cell.is_op else _metric(cell, "samples_per_second"),
        ratio,
        tax,
        _equivalence(cell),
        _metric(cell, "test_accuracy", "validation_accuracy", "train_accuracy"),
        _metric(cell, "first_epoch_time"),
        _metric(cell, "device_peak_memory", "host_peak_rss"),
        (f"{ok}/{len(cell.forks)}", float(ok)),
        a["task"],
        a["precision"],
        a["device"],
    ]


def details_of(study: Study, cell: Cell) -> dict[str, Any]:
    """Return the details below a row."""
    out: dict[str, Any] = {"id": cell.id, "reproduce": cell.reproduce}
    if len(study.reports) > 1:
        out["report"] = study.reports[cell.report].label
    if cell.reason:
        out["reason"] = cell.reason
    if cell.log_tail and cell.status != "ok":
        out["log"] = cell.log_tail
    if cell.equivalence.checked and cell.equivalence.reason:
        out["equivalence"] = cell.equivalence.reason
    named = [f"{one.name} {one.version}".strip() for one in cell.libraries]
    libraries = [f"{cell.axes['backend']} {cell.backend_version}".strip(), *named]
    out["libraries"] = "; ".join(dict.fromkeys(libraries[:12]))
    out["metrics"] = [[name, text_of(metric)] for name, metric in cell.metrics.items()]
    return out


def rows(study: Study) -> Iterator[tuple[list[Entry], dict[str, Any]]]:
    """Iterate over the groups in order, and over each group by rank."""
    for group in study.groups:
        for cell in group.in_rank:
            yield row_of(study, cell), details_of(study, cell)


def shown_columns(rows_of: list[list[Entry]]) -> list[int]:
    """Leave out the empty columns."""
    return [
        i
        for i in range(len(COLUMNS))
        if any((row[i] if isinstance(row[i], str) else row[i][0]) not in ("", "–") for row in rows_of)
    ]


@dataclass(frozen=True, slots=True)
class Beside:
    """A measured number next to a published one."""

    cell: str
    metric: str
    measured: str
    published: str
    source: str


def _measured(cell: Cell, entry: Published) -> str:
    if not entry.is_ratio:
        metric = cell.metrics.get(entry.metric)
        return text_of(metric) if metric else "–"
    ratio = entry.measured
    if not ratio:
        return "–"
    return shown_interval(ratio.value, ratio.lower, ratio.upper, "ratio", "1") + (
        "" if ratio.n else " unpaired"
    )


def published(study: Study) -> Iterator[Beside]:
    """Iterate over the published numbers; a quick run is never compared with them."""
    for cell in study.cells:
        if study.reports[cell.report].run.get("quick") is True:
            continue
        for entry in cell.published:
            name = entry.metric
            if entry.is_ratio:
                other = None if entry.other is None else study.all_cells[entry.other]
                name += f" / that of {other.series}" if other else " / that of a cell that is not here"
            said = [shown(entry.value, entry.hint, entry.unit)] if entry.value is not None else []
            said += [entry.statement] if entry.statement else []
            a = cell.axes
            title = f"{a['workload']} {cell.series} {a['device']} b{a['batch']}"
            yield Beside(clean(title), name, _measured(cell, entry), "; ".join(said), entry.source)


def environment(tree: Any, most: int = 200) -> list[tuple[str, str]]:
    """Flatten the description of a machine, "cpu model" -> "…", without recursion: it may be deep."""
    out: list[tuple[str, str]] = []
    waiting: list[tuple[str, Any]] = [("", tree)]
    while waiting and len(out) < most:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path} {key}".strip(), value[key]) for key in reversed(list(value))]
        elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
            waiting += [(f"{path} {i + 1}".strip(), item) for i, item in reversed(list(enumerate(value)))]
        elif isinstance(value, list):
            out.append(
                (clean(path, 120), clean(", ".join(_plain(path, item) for item in value[:100]), 400) or "–")
            )
        else:
            out.append((clean(path, 120), _plain(path, value)))
    return out


def _plain(path: str, value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if abs(value) > 1e300:
            return "too large"
        name = path.rsplit(" ", 1)[-1]
        if name in ("bytes", "total", "available", "memory_limit", "line_bytes"):
            return shown(float(value), "bytes", "B")
        return str(value) if isinstance(value, int) else f"{value:.6g}"
    return clean(str(value), 400) or "–"
