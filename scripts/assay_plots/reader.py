"""A report's JSON into what the pictures need; what is not as the schema says is refused by its place."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from assay_plots.json_file import ReportError, read_json
from assay_plots.report import (
    Cell,
    Evaluation,
    Fork,
    Metric,
    Phase,
    Published,
    Report,
    Tensor,
    Timeline,
)
from assay_plots.text import clean

SCHEMAS = ("assay-report/1", "assay-report/2")
AXES = (
    *("workload", "backend", "device", "mode", "task", "precision", "layout", "batch", "dataset", "loader"),
    *("loader_workers", "optimizer", "threads", "compile_cache", "deterministic", "measure", "size", "cache"),
)
TIMELINE_POINTS = 500
NOT_FINITE = ("nan", "inf", "-inf")  # what a column has for such a number
LARGEST = 1e100  # of the numbers that pictures take, so that no ratio or sum of them overflows
T = TypeVar("T")


class Malformed(Exception):
    """A value that the schema does not allow, with the way to it."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(what)
        self.place = place


def _get(of: dict[str, Any], name: str, kinds: tuple[type, ...], default: Any) -> Any:
    value = of.get(name)
    if value is None:
        return default
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise Malformed(name, f"it is of type {type(value).__name__}")
    return value


def _text(of: dict[str, Any], name: str, limit: int = 200) -> str:
    return clean(_get(of, name, (str,), ""), limit)


def _finite(value: float, name: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= LARGEST:
        raise Malformed(name, "the number is too large")
    return number if abs(number) >= 1 / LARGEST else 0.0


def _number(of: dict[str, Any], name: str) -> float | None:
    if of.get(name) in NOT_FINITE:
        return None
    value = _get(of, name, (int, float), None)
    return None if value is None else _finite(value, name)


def _whole(of: dict[str, Any], name: str) -> int:
    value = _get(of, name, (int,), 0)
    if abs(value) >= 2**63:
        raise Malformed(name, "the number is too large")
    return int(value)


def _object(of: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = _get(of, name, (dict,), {})
    return found


def _each(of: dict[str, Any], name: str, parse: Callable[[dict[str, Any]], T]) -> list[T]:
    out: list[T] = []
    for i, item in enumerate(_get(of, name, (list,), [])):
        try:
            if not isinstance(item, dict):
                raise Malformed("", f"it is of type {type(item).__name__}, not an object")
            out.append(parse(item))
        except Malformed as error:
            raise Malformed(f"{name}[{i}].{error.place}".rstrip("."), str(error)) from None
    return out


def _rows(of: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Read columns (a list per field, or one value for all rows) as rows; version 1 has rows."""
    columns = of.get(name)
    if columns is None or isinstance(columns, list):
        return _each(of, name, dict)
    inner = _object(of, name)
    counts = {len(column) for column in inner.values() if isinstance(column, list)}
    if len(counts) > 1 or (inner and not counts):
        raise Malformed(name, "its columns differ in length")
    count = next(iter(counts), 0)
    lists = {key: c if isinstance(c, list) else [c] * count for key, c in inner.items()}
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def _each_row(of: dict[str, Any], name: str, parse: Callable[[dict[str, Any]], T]) -> list[T]:
    return _each({name: _rows(of, name)}, name, parse)


def _texts(of: dict[str, Any], name: str) -> tuple[str, ...]:
    words = _get(of, name, (list,), [])
    if not all(isinstance(word, str) for word in words):
        raise Malformed(name, "it holds what is no text")
    return tuple(clean(word) for word in words)


def _numbers(of: dict[str, Any], name: str) -> dict[str, float]:
    inner = _object(of, name)
    found = {clean(key, 80): _number(inner, key) for key in inner}
    return {key: value for key, value in found.items() if value is not None}


def _metric(of: dict[str, Any]) -> Metric:
    return Metric(
        _number(of, "value"),
        _text(of, "unit", 20),
        _number(of, "lower"),
        _number(of, "upper"),
        _whole(of, "n"),
        _text(of, "hint", 20),
        _text(of, "reason"),
    )


def _published(of: dict[str, Any]) -> Published:
    return Published(
        _text(of, "metric", 80),
        _number(of, "value"),
        _text(of, "unit", 20),
        _text(of, "to", 2000),
        _text(of, "source", 300),
        _text(of, "statement", 400),
    )


def _tensor(of: dict[str, Any]) -> Tensor:
    return Tensor(_text(of, "name", 120), _number(of, "ratio"))


def _evaluation(of: dict[str, Any]) -> Evaluation:
    return Evaluation(
        _whole(of, "epoch"), _text(of, "split", 40), _number(of, "loss"), _number(of, "accuracy")
    )


class _Block:
    """A block's clock, and what it counts as."""

    __slots__ = ("begin", "end", "epoch", "seconds", "steps", "timed")

    def __init__(self, of: dict[str, Any]) -> None:
        self.timed = _text(of, "kind", 20) == "timed"
        self.epoch = _whole(of, "epoch")
        self.steps = _whole(of, "steps")
        self.begin = _whole(of, "begin_ns")
        self.end = _whole(of, "end_ns")
        self.seconds = 1e-9 * (self.end - self.begin)

    @property
    def phase(self) -> str:
        if not self.timed:
            return "warm up"
        return f"epoch {self.epoch}" if self.epoch else "timed"


def _timeline(blocks: list[_Block], samples: list[dict[str, Any]]) -> Timeline | None:
    """Thin the samples out to what a picture can show, keeping the highest of each stretch."""
    times = [_whole(sample, "time_ns") for sample in samples]
    starts = [block.begin for block in blocks] + times
    if not starts or len(samples) < 2:
        return None
    first = min(starts)
    phases: list[Phase] = []
    for block in blocks:
        begin, end = 1e-9 * (block.begin - first), 1e-9 * (block.end - first)
        if phases and phases[-1].kind == block.phase:
            phases[-1] = Phase(block.phase, phases[-1].begin, end)
        else:
            phases.append(Phase(block.phase, begin, end))
    timeline = Timeline(tuple(phases[:TIMELINE_POINTS]), array("d"), array("d"), array("d"))
    stride = -(-len(samples) // TIMELINE_POINTS)
    for i in range(0, len(samples), stride):
        part = samples[i : i + stride]
        timeline.times.append(1e-9 * (times[i] - first))
        timeline.cpu.append(max(_number(sample, "worker_cpu") or 0.0 for sample in part))
        seen = [
            share for share in (_number(sample, "gpu_utilisation") for sample in part) if share is not None
        ]
        if seen and len(timeline.gpu) == i // stride:
            timeline.gpu.append(max(seen))
    return timeline


def _fork(of: dict[str, Any], keep: Callable[[Timeline | None, str, str], None]) -> Fork:
    blocks = _each_row(of, "blocks", _Block)
    timed = [block for block in blocks if block.timed and block.steps > 0 and block.seconds > 0]
    last = max((block.epoch for block in blocks), default=0)
    epochs: dict[int, float] = {}
    for block in timed:
        if block.epoch:
            epochs[block.epoch] = epochs.get(block.epoch, 0.0) + block.seconds
    steady = [b.seconds / b.steps for b in timed if not (last > 1 and b.epoch == 1)]
    status = _text(of, "status", 40)
    samples = _rows(of, "samples")
    keep(_timeline(blocks, samples), status, _get(of, "log_tail", (str,), ""))
    return Fork(
        _whole(of, "round"),
        status,
        _texts(of, "flags"),
        _number(of, "compile_seconds"),
        array("d", steady),
        median(steady) if steady else None,
        epochs,
        tuple(_each_row(of, "evaluations", _evaluation)),
        _numbers(of, "memory"),
        _text(of, "reason", 600),
        _texts(of, "warnings")[:20],
    )


def _axis(of: dict[str, Any], name: str) -> str:
    value = of.get(name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(_whole(of, name))
    return _text(of, name)


def _library(of: dict[str, Any]) -> str:
    return f"{_text(of, 'name', 80)} {_text(of, 'version', 120)}".strip()


def _metrics(of: dict[str, Any]) -> dict[str, Metric]:
    inner = _object(of, "metrics")
    out: dict[str, Metric] = {}
    for name in inner:
        try:
            out[clean(name, 80)] = _metric(_object(inner, name))
        except Malformed as error:
            raise Malformed(f"metrics.{clean(name, 80)}.{error.place}", str(error)) from None
    return out


def _cell(of: dict[str, Any]) -> Cell:
    timelines: list[Timeline] = []
    logs: list[str] = []

    def keep(timeline: Timeline | None, status: str, log: str) -> None:
        # One fork shows how a cell runs: the first that ended well.
        if timeline and status == "ok" and not timelines:
            timelines.append(timeline)
        if log and not logs:
            logs.append(clean(log[-2000:], 2000))

    axes = _object(of, "axes") if "axes" in of else of  # version 1 has them in the cell
    for name in ("id", "workload", "backend", "mode", "status"):
        if not isinstance((of if name in ("id", "status") else axes).get(name), str):
            raise Malformed(name, "it is missing, or no text")
    equivalence = _object(of, "equivalence")
    variant = _object(axes, "variant")
    forks = tuple(_each(of, "forks", lambda fork: _fork(fork, keep)))
    return Cell(
        id=_text(of, "id", 2000),
        axes={name: _axis(axes, name) for name in AXES},
        batch=_whole(axes, "batch"),
        variant={clean(key, 80): _text(variant, key, 80) for key in variant},
        kind=_text(of, "kind", 40),
        status=_text(of, "status", 40),
        reason=_text(of, "reason", 1000),
        flags=_texts(of, "flags"),
        reproduce=_text(of, "reproduce", 4000),
        backend_version=_text(of, "backend_version", 120),
        libraries=tuple(_each(of, "libraries", _library)),
        checked=_get(equivalence, "checked", (bool,), False),
        passed=_get(equivalence, "passed", (bool,), False),
        worst=_number(equivalence, "worst"),
        equivalence_reason=_text(equivalence, "reason", 600),
        tensors=tuple(_each_row(equivalence, "tensors", _tensor)),
        published=tuple(_each(of, "published", _published)),
        metrics=_metrics(of),
        work=_numbers(of, "work"),
        forks=forks,
        timeline=timelines[0] if timelines else None,
        log_tail=logs[0] if logs else "",
    )


def read_report(path: Path, label: str, wanted: Callable[[str], bool] = lambda _: True) -> Report:
    """Read the cells whose id is wanted. Raises ReportError for what is no report."""
    report = Report(label, {}, {})
    ids: set[str] = set()
    count = 0

    def take(value: Any) -> None:
        nonlocal count
        place = f"cells[{count}]"
        count += 1
        try:
            if not isinstance(value, dict):
                raise Malformed("", f"it is of type {type(value).__name__}, not an object")
            cell = _cell(value)
        except Malformed as error:
            raise ReportError(
                f"{path}: {f'{place}.{error.place}'.rstrip('.')}: {error}; `assay validate {path}` says more"
            ) from None
        if cell.id in ids:
            raise ReportError(f"{path}: {place}: the id {cell.id} is there twice: ids are unique in a report")
        ids.add(cell.id)
        if wanted(cell.id):
            report.cells.append(cell)

    head = read_json(path, take)
    schema = head.get("schema")
    if schema not in SCHEMAS:
        known = " and ".join(SCHEMAS)
        raise ReportError(f"{path}: its schema is {clean(repr(schema), 80)}; these pictures are of {known}")
    for name in ("run", "environment"):
        if not isinstance(head.get(name), dict):
            raise ReportError(f"{path}: {name} is missing, or no object")
    report.run, report.environment = head["run"], head["environment"]
    return report
