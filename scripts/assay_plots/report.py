"""The data of the pictures from an analysis. Fields are those of docs/reference/analysis.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from assay_plots.text import clean, shown_interval

LARGEST = 1e100  # the largest number in a picture, so that no ratio or sum overflows
# The longest texts, in characters.
_LIMITS = {"id": 2000, "log_tail": 2000, "note": 600, "reason": 1000, "reproduce": 4000, "source": 300}
_AS_IN_THE_REPORT = ("run", "environment", "environments", "hosts")
_UNLIMITED = ("memory_limit", "arithmetic_limit")  # quotients of two numbers of the report


class NumberError(Exception):
    """A number is too large for a picture; the text is its place."""


class Item:
    """An object of the document: each field is an attribute, and an object in it is an item, too."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__} of an analysis has no field {name}")


class Metric(Item):
    @property
    def text(self) -> str:
        """The value, and its interval if there is one."""
        return shown_interval(self.value, self.lower, self.upper, self.hint, self.unit)


class Published(Item):
    @property
    def said(self) -> str:
        """By whom, and in which words."""
        return f"{self.source}: {self.statement}" if self.statement else str(self.source)


@dataclass(frozen=True, slots=True)
class Heading:
    title: str
    about: str = ""

    def of(self, what: str) -> Heading:
        """Return the same work with the name of what is shown before it."""
        return Heading(f"{what}: {self.title}", self.about)


class Cell(Item):
    axes: dict[str, str]  # in the order of the analysis' own list

    @property
    def batch(self) -> int:
        return int(self.axes["batch"])

    def value(self, metric: str) -> float | None:
        found = self.metrics.get(metric)
        return None if found is None else found.value

    def counted_forks(self) -> list[Item]:
        """The forks from which its metrics are made."""
        return [fork for fork in self.forks if fork.counted]


class Report(Item):
    @property
    def machines(self) -> list[dict[str, Any]]:
        """The machines on which its cells ran."""
        return self.environments or [self.environment]

    @property
    def named_machines(self) -> list[tuple[str, dict[str, Any]]]:
        """The machines with their names on the page, those of ranks by their host names."""
        machines = self.machines
        names = ["Machine"] if len(machines) == 1 else [f"Machine {i + 1}" for i in range(len(machines))]
        return [*zip(names, machines, strict=True), *((host["name"], host["machine"]) for host in self.hosts)]


class Group(Item):
    """Cells that may be compared; `cells` and `in_rank` are the cells themselves."""

    def ranked(self) -> list[Cell]:
        return [cell for cell in self.in_rank if cell.rank is not None]


@dataclass(slots=True)
class Study:
    reports: list[Report]
    cells: list[Cell]  # without those of a filter
    groups: list[Group]
    families: list[Item]
    plans: list[Item]  # `cell` is the cell itself
    metrics: dict[str, Item]
    series: list[str]
    all_cells: list[Cell]  # by index
    scaling: list[Item]

    @property
    def networks(self) -> list[Group]:
        return [group for group in self.groups if not group.is_op]


_CLASSES: dict[str, type] = {
    "cell": Cell,
    "group": Group,
    "heading": Heading,
    "metric": Metric,
    "published": Published,
    "report": Report,
}


def _number(value: float) -> float:
    if not abs(value) <= LARGEST:
        raise NumberError("")
    return value if isinstance(value, int) or abs(value) >= 1 / LARGEST else 0.0


def _axis(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else clean(value)


def _object(of: dict[str, Any], name: str) -> Any:
    fields: dict[str, Any] = {}
    for key, value in of.items():
        try:
            if name in ("axes", "variant"):
                fields[clean(key, 80)] = _axis(value)
            else:
                fields[clean(key, 80)] = read(value, "metric" if name == "metrics" else key)
        except NumberError as error:
            raise NumberError(f".{clean(key, 80)}{error}") from None
    if name == "metrics":
        return {key: metric for key, metric in fields.items() if metric.value is not None}
    if name in ("axes", "variant", "accuracy"):
        return fields
    if "least" in fields and fields["value"] is None:  # a ratio that is not finite
        return None
    return _CLASSES.get(name, Item)(**fields)


def read(value: Any, name: str) -> Any:
    """Read the field `name` of the document; texts and numbers are not trusted. Raises NumberError.

    The items of a list have its name without the plural's s.
    """
    if name in _AS_IN_THE_REPORT or value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return clean(value, _LIMITS.get(name, 400))
    if isinstance(value, (int, float)):
        return value if name in _UNLIMITED else _number(value)
    if isinstance(value, dict):
        return _object(value, name)
    items = []
    for i, one in enumerate(value):
        try:
            items.append(read(one, name.removesuffix("s")))
        except NumberError as error:
            raise NumberError(f"[{i}]{error}") from None
    return items
