"""What the pictures need of a report: cells with their metrics, and each fork without its single blocks."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Metric:
    value: float | None
    unit: str
    lower: float | None
    upper: float | None
    n: int
    hint: str
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    metric: str
    value: float | None
    unit: str
    to: str
    source: str
    statement: str


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    ratio: float | None  # error over bound; None: not finite


@dataclass(frozen=True, slots=True)
class Evaluation:
    epoch: int
    split: str
    loss: float | None
    accuracy: float | None


@dataclass(frozen=True, slots=True)
class Phase:
    """Blocks of one kind without another between them."""

    kind: str  # "warm up", "timed", "epoch 3"
    begin: float  # seconds since the fork's first event
    end: float


@dataclass(frozen=True, slots=True)
class Timeline:
    phases: tuple[Phase, ...]
    times: array[float]  # seconds since the fork's first event
    cpu: array[float]  # cores
    gpu: array[float]  # share; empty where no GPU was seen


@dataclass(frozen=True, slots=True)
class Fork:
    round: int
    status: str
    flags: tuple[str, ...]
    compile_seconds: float | None
    block_step_seconds: array[float]  # of each timed block: time a step
    step_seconds: float | None  # their median, without the first of several epochs
    epochs: dict[int, float]  # epoch -> seconds in its blocks
    evaluations: tuple[Evaluation, ...]
    memory: dict[str, float]
    reason: str
    warnings: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return self.status == "ok" and not self.flags


@dataclass(slots=True)
class Cell:
    id: str
    axes: dict[str, str]
    batch: int
    variant: dict[str, str]
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
    published: tuple[Published, ...]
    metrics: dict[str, Metric]
    work: dict[str, float]
    forks: tuple[Fork, ...]
    timeline: Timeline | None = None
    log_tail: str = ""
    report: int = 0  # which of the reports
    series: str = ""  # "onednn graph": what tells it from others of its group

    @property
    def is_op(self) -> bool:
        return self.axes["workload"].startswith("op/")

    @property
    def clean(self) -> bool:
        """Whether it may be ranked: equal to the oracle, or the oracle itself, and undisturbed."""
        return self.status == "ok" and not self.flags and (self.passed or self.kind == "oracle")

    def value(self, metric: str) -> float | None:
        found = self.metrics.get(metric)
        return None if found is None else found.value

    def counted_forks(self) -> list[Fork]:
        """Those behind its metrics: the clean ones, or of a flagged cell all that are ok."""
        return [fork for fork in self.forks if fork.clean or (self.flags and fork.status == "ok")]


@dataclass(slots=True)
class Report:
    label: str  # the file's name
    run: dict[str, Any]
    environment: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
