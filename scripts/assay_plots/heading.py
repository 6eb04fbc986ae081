"""What a cell's work is called: a title in plain words, and below it what else was set."""

from __future__ import annotations

from dataclasses import dataclass

from assay_plots.report import Cell
from assay_plots.text import plural

TASKS = {"train": "training", "infer": "prediction"}
OP_TASKS = {"train": "forward and backward", "infer": "forward"}


@dataclass(frozen=True, slots=True)
class Heading:
    title: str
    about: str = ""

    def of(self, what: str) -> Heading:
        """Give the same work with what of it is shown in front."""
        return Heading(f"{what}: {self.title}", self.about)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _loader(cell: Cell) -> str:
    a = cell.axes
    if a["loader"] == "resident":
        return "batches resident in memory"
    workers = _number(a["loader_workers"])
    return f"{a['loader']} loader" + (f" with {plural(workers, 'worker')}" if workers else "")


def _about(cell: Cell, words: list[str]) -> str:
    a = cell.axes
    words.append(f"{a['compile_cache']} compile cache" if a["compile_cache"] not in ("cold", "") else "")
    words.append("deterministic" if a["deterministic"] == "true" else "")
    words += [f"{option} {value}" for option, value in cell.variant.items()]
    return ", ".join(word for word in words if word)


def heading(cell: Cell, with_batch: bool = True) -> Heading:
    """Name a network's work, or a single operator's at all of its sizes."""
    a = cell.axes
    machine = f"{a['device']}, {plural(_number(a['threads']), 'thread')}"
    if cell.is_op:
        title = f"{a['workload']}, {OP_TASKS.get(a['task'], a['task'])}"
        title += f", {a['precision']}" if a["precision"] != "fp32" else ""
        return Heading(title, _about(cell, [a["precision"], machine, f"{a['cache']} cache"]))
    title = f"{a['workload']}, {TASKS.get(a['task'], a['task'])}"
    kind, _, count = a["measure"].partition(":")
    measured = plural(_number(count), "epoch") if kind == "epochs" else "steps"
    words = [a["precision"], a["dataset"], a["optimizer"], machine, _loader(cell), measured]
    title += f", batch {a['batch']}" if with_batch else ""
    title += f", {a['precision']}" if a["precision"] != "fp32" else ""
    title += f", on {a['device']}" if a["device"] != "cpu" else ""
    return Heading(title, _about(cell, words))
