"""The cells of all reports, put beside those that they may be compared with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from statistics import median

from assay_plots.report import Cell, Report
from assay_plots.statistics import Estimate, estimate


def op_family(cell: Cell) -> str:
    """Name what single ops of unlike sizes have in common."""
    a = cell.axes
    title = f"{a['workload']} {a['task']} {a['precision']}, {a['device']} t{a['threads']}, {a['cache']} cache"
    if a["compile_cache"] not in ("cold", ""):
        title += f", cache-{a['compile_cache']}"
    return title + (", deterministic" if a["deterministic"] == "true" else "")


def group_title(cell: Cell, with_batch: bool = True) -> str:
    """Name the work that cells share which are alike in all but backend, mode and layout."""
    a = cell.axes
    if cell.is_op:
        head, _, rest = op_family(cell).partition(",")
        return f"{head} {a['size']},{rest}"
    words = [a["workload"], a["task"], a["precision"], f"b{a['batch']}" if with_batch else "", a["dataset"]]
    title = " ".join(word for word in [*words, a["optimizer"]] if word)
    title += f", {a['device']} t{a['threads']}, {a['loader']}"
    if a["loader"] != "resident":
        title += f" w{a['loader_workers']}"
    if a["compile_cache"] not in ("cold", ""):
        title += f" cache-{a['compile_cache']}"
    if a["deterministic"] == "true":
        title += " deterministic"
    for option, value in cell.variant.items():
        title += f", {option} {value}"
    return f"{title}, {a['measure']}"


@dataclass(slots=True)
class Group:
    title: str
    cells: list[Cell] = field(default_factory=list)

    @property
    def is_op(self) -> bool:
        return self.cells[0].is_op

    def in_rank(self) -> list[Cell]:
        """Ranked cells by time, then those that were timed, then the others as they stand."""

        def key(cell: Cell) -> tuple[int, float]:
            time = cell.value("step_time")
            return (0 if cell.clean else 1, time) if time is not None else (2, 0.0)

        return sorted(self.cells, key=key)


def time_ratio(cell: Cell, base: Cell) -> Estimate | None:
    """Give time a step over that of `base`, paired within the rounds in which both have a clean fork."""
    if cell.report != base.report or not cell.clean or not base.clean:
        return None
    times = {fork.round: fork.step_seconds for fork in base.forks if fork.clean and fork.step_seconds}
    ratios = [
        fork.step_seconds / times[fork.round]
        for fork in cell.forks
        if fork.clean and fork.step_seconds and fork.round in times
    ]
    return estimate(ratios) if ratios else None


def ranked_time(cell: Cell) -> float | None:
    times = [fork.step_seconds for fork in cell.forks if fork.clean and fork.step_seconds]
    return median(times) if times and cell.clean else None


@dataclass(slots=True)
class Study:
    reports: list[Report]
    cells: list[Cell]
    groups: list[Group]
    series: list[str]
    by_id: dict[tuple[int, str], Cell]

    @property
    def networks(self) -> list[Group]:
        return [group for group in self.groups if not group.is_op]

    def of_at_most(self, limit: int) -> Study:
        """Give the study with the first `limit` cells of each group in rank; itself where none has more."""
        if all(len(group.cells) <= limit for group in self.groups):
            return self
        groups = [Group(group.title, group.in_rank()[:limit]) for group in self.groups]
        cells = [cell for group in groups for cell in group.cells]
        return replace(self, groups=groups, cells=cells)

    def find(self, cell: Cell, other: str) -> Cell | None:
        """Look up a cell of the same report by its id."""
        return self.by_id.get((cell.report, other))

    def baseline(self, group: Group, report: int) -> Cell | None:
        """Choose what others are measured against: the fastest bare library, else the fastest of all."""
        ranked = [
            (time, cell) for cell in group.cells if (time := ranked_time(cell)) and cell.report == report
        ]
        bare = [pair for pair in ranked if pair[1].kind == "bare"]
        pairs = bare or ranked
        return min(pairs, key=lambda pair: pair[0])[1] if pairs else None


def make_study(reports: list[Report]) -> Study:
    groups: dict[str, Group] = {}
    series: dict[str, None] = {}
    cells: list[Cell] = []
    for number, report in enumerate(reports):
        for cell in report.cells:
            cell.report = number
            layout = cell.axes["layout"]
            cell.series = f"{cell.axes['backend']} {cell.axes['mode']}"
            cell.series += f" {layout}" if layout not in ("native", "") else ""
            cell.series += f" @ {report.label}" if len(reports) > 1 else ""
            series.setdefault(cell.series)
            title = group_title(cell)
            groups.setdefault(title, Group(title)).cells.append(cell)
            cells.append(cell)
    by_id = {(cell.report, cell.id): cell for cell in cells}
    return Study(reports, cells, list(groups.values()), list(series), by_id)
