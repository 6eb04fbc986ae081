"""The data of the pictures from an analysis: cells, groups and families with all derived values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from assay_plots.text import shown_interval


@dataclass(frozen=True, slots=True)
class Metric:
    value: float
    unit: str
    lower: float | None
    upper: float | None
    n: int
    hint: str

    @property
    def text(self) -> str:
        """The value, and its interval if there is one."""
        return shown_interval(self.value, self.lower, self.upper, self.hint, self.unit)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of times or metrics; if the cells share no round, `n` is 0, without an interval."""

    value: float
    lower: float | None
    upper: float | None
    n: int
    least: float | None = None  # over rounds
    greatest: float | None = None


@dataclass(frozen=True, slots=True)
class Published:
    metric: str
    value: float | None
    unit: str
    hint: str
    is_ratio: bool
    other: int | None  # index of the cell in the denominator of a ratio
    measured: Ratio | None
    samples_per_second: float | None  # the published time of a step, as a rate
    source: str
    statement: str

    @property
    def said(self) -> str:
        """By whom, and in which words."""
        return f"{self.source}: {self.statement}" if self.statement else self.source


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    ratio: float | None  # error over bound; None: not finite


@dataclass(frozen=True, slots=True)
class Evaluation:
    epoch: int
    split: str
    accuracy: float | None
    after_seconds: float  # of training, compilation included


@dataclass(frozen=True, slots=True)
class Phase:
    """Consecutive blocks of one kind."""

    kind: str  # "warm up", "timed", "epoch 3"
    begin: float  # seconds since the fork's first event
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    phases: tuple[Phase, ...]
    times: tuple[float, ...]  # seconds since the fork's first event
    cpu: tuple[float, ...]  # cores
    gpu: tuple[float, ...]  # share; empty if no GPU was seen


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A metric over the forks that count."""

    epoch: int
    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True)
class Fork:
    round: int
    status: str
    clean: bool
    counted: bool
    flags: tuple[str, ...]
    warnings: tuple[str, ...]
    step_seconds: float | None
    off: float | None  # from the cell's median, as a share of it
    off_low: float | None  # of the fork's blocks, the quantiles 0.1 and 0.9
    off_high: float | None
    training_seconds: float | None
    accuracy: dict[str, float]  # split -> of the last evaluation
    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True, slots=True)
class Heading:
    title: str
    about: str = ""

    def of(self, what: str) -> Heading:
        """Return the same work with the name of what is shown before it."""
        return Heading(f"{what}: {self.title}", self.about)


@dataclass(slots=True, eq=False)
class Cell:
    id: str
    report: int  # which of the reports
    group: int  # index of its group
    mode: str  # with the backend's other settings: "compile warm-cache"
    series: str  # "onednn graph": distinguishes it from the others of its group
    axes: dict[str, str]
    variant: dict[str, str]  # axes without a field of their own, by their names
    is_op: bool
    kind: str
    status: str
    reason: str
    flags: tuple[str, ...]
    reproduce: str
    backend_version: str
    libraries: tuple[str, ...]
    checked: bool
    passed: bool
    worst: float | None
    equivalence_reason: str
    tensors: tuple[Tensor, ...]
    clean: bool  # it may be ranked
    rank: int | None
    base: int | None  # index of the cell in the ratio's denominator
    ratio: Ratio | None  # of times
    taxed: bool
    to_fastest: Ratio | None  # of times
    published: tuple[Published, ...]
    metrics: dict[str, Metric]  # those that have a value
    train_loss: tuple[CurvePoint, ...]
    epoch_time: tuple[CurvePoint, ...]
    first_epoch_ratio: float | None
    operators: tuple[tuple[str, float], ...]  # op and seconds a step, largest first; with --profile
    spread: float | None
    work: dict[str, float]
    memory_limit: float | None  # minimum seconds per step
    arithmetic_limit: float | None
    forks: tuple[Fork, ...]
    timeline: Timeline | None
    log_tail: str

    @property
    def batch(self) -> int:
        return int(self.axes["batch"])

    def value(self, metric: str) -> float | None:
        found = self.metrics.get(metric)
        return None if found is None else found.value

    def counted_forks(self) -> list[Fork]:
        """The forks from which its metrics are made."""
        return [fork for fork in self.forks if fork.counted]


@dataclass(slots=True)
class Report:
    label: str  # the file's name
    run: dict[str, Any]
    environment: dict[str, Any]
    cells: int
    environments: list[dict[str, Any]] = field(default_factory=list)  # of a merged report

    @property
    def machines(self) -> list[dict[str, Any]]:
        """The machines on which its cells ran."""
        return self.environments or [self.environment]


@dataclass(slots=True)
class Group:
    """Cells that may be compared."""

    title: str
    heading: Heading
    family: int
    is_op: bool
    cells: list[Cell]
    in_rank: list[Cell]
    notes: tuple[str, ...] = ()

    def ranked(self) -> list[Cell]:
        return [cell for cell in self.in_rank if cell.rank is not None]


@dataclass(frozen=True, slots=True)
class Follower:
    """The range of its time ratios to the leader, over the sizes that both have."""

    series: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Leader:
    series: str
    wins: int
    sizes: int
    sure: bool
    followers: tuple[Follower, ...]


@dataclass(frozen=True, slots=True)
class Growth:
    """How the time of a series grows with the size."""

    series: str
    doubling: float  # the factor of the time when the size doubles


@dataclass(frozen=True, slots=True)
class Scaling:
    """The efficiency of a cell with several ranks; cells by their places in Study.all_cells."""

    cell: int
    base: int  # with one rank
    kind: str  # "strong", "weak"
    efficiency: Ratio


@dataclass(slots=True)
class Family:
    """Groups that differ only in the batch, or in the size of an op."""

    title: str
    heading: Heading
    is_op: bool
    groups: list[int]
    leader: Leader | None
    growth: tuple[Growth, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    cell: Cell
    persistent: float


@dataclass(frozen=True, slots=True)
class MetricRow:
    """The program's description of a metric."""

    name: str
    unit: str
    hint: str
    better: str
    section: str
    heading: str
    about: str


@dataclass(slots=True)
class Study:
    reports: list[Report]
    cells: list[Cell]
    groups: list[Group]
    families: list[Family]
    plans: list[Plan]
    metrics: dict[str, MetricRow]
    series: list[str]
    all_cells: list[Cell] = field(default_factory=list)  # by index
    scaling: list[Scaling] = field(default_factory=list)

    @property
    def networks(self) -> list[Group]:
        return [group for group in self.groups if not group.is_op]
