"""Two ranks over a limited network, measured and modelled: the rows of scripts/scaling-namespaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from assay_plots.report import Cell, Scaling, Study
from network_probe import Found
from scaling_model import EXCHANGES, Cluster, Step, simulate

RANKS = 2
USUAL_EXCHANGE = "ring"
OWN_EXCHANGES = {"mxnet": "server"}  # of the backends that have another one
ASSUMPTIONS = (
    "A step takes the time of one rank with the same batch, and the exchange of the gradients.",
    "The exchange takes bytes over bandwidth plus one latency for each of its rounds, as measured by a probe "
    "without a framework, while both sides send.",
    "All gradients are one fp32 message, and adding is free. The step has the bytes that the backend says: "
    "onednn pads them. The bare exchange has those of the parameters.",
    "--overlap of the computation hides communication; by default nothing does.",
    "Sending takes no processor time from the computation.",
    "The overhead is what two ranks take beyond the model without a limit: what ranks cost by themselves.",
    "With the overhead, only the change from rate to rate tests the model.",
)


@dataclass(frozen=True)
class Row:
    """Times are in seconds, rates in bits and bandwidths in bytes per second; None: not known."""

    workload: str
    backend: str
    mode: str
    batch: int  # of each rank
    rate: float | None  # None: no limit
    bandwidth: float  # this and the latency: of the probe
    latency: float
    exchange: str
    gradient_bytes: int  # those of the parameters
    step_bytes: int  # that each rank gives to the exchange; of the parameters if that was not measured
    bare_exchange: float  # by the probe
    modelled_exchange: float
    status: str
    reason: str = ""
    flags: tuple[str, ...] = ()
    one_rank: float | None = None
    two_ranks: float | None = None
    modelled: float | None = None
    efficiency: float | None = None  # paired within rounds
    efficiency_lower: float | None = None
    efficiency_upper: float | None = None
    modelled_efficiency: float | None = None
    overhead: float | None = None  # of this workload, backend and mode
    modelled_with_overhead: float | None = None  # None also where the overhead comes from

    @property
    def deviation(self) -> float | None:
        return deviation_of(self.two_ranks, self.modelled)

    @property
    def deviation_with_overhead(self) -> float | None:
        return deviation_of(self.two_ranks, self.modelled_with_overhead)

    def document(self) -> dict[str, Any]:
        """Return the row as JSON."""
        own = {"deviation": self.deviation, "deviation_with_overhead": self.deviation_with_overhead}
        return asdict(self) | own


def deviation_of(measured: float | None, modelled: float | None) -> float | None:
    """Return by how much the measured time is longer, as a share of the modelled one."""
    return None if measured is None or modelled is None else measured / modelled - 1


def exchange_of(backend: str, given: str | None = None) -> str:
    return given or OWN_EXCHANGES.get(backend, USUAL_EXCHANGE)


def rows_of(
    study: Study,
    rate: float | None,
    found: Found,
    asked: Sequence[tuple[str, int]],
    sizes: Mapping[str, int],
    exchange: str | None = None,
    overlap: float = 0.0,
) -> list[Row]:
    """Return a row for each cell of two ranks. `found.exchanges` are those that the probe was `asked` for."""
    bare = dict(zip(asked, found.exchanges, strict=True))
    weak = {of.cell: of for of in study.scaling if of.kind == "weak"}
    rows = []
    for place, cell in enumerate(study.all_cells):
        if cell.variant.get("ranks") != str(RANKS):
            continue
        workload, backend = cell.axes["workload"], cell.axes["backend"]
        name, size = exchange_of(backend, exchange), sizes[workload]
        row = Row(
            workload=workload,
            backend=backend,
            mode=cell.mode,
            batch=cell.batch // RANKS,
            rate=rate,
            bandwidth=found.link.bandwidth,
            latency=found.link.latency,
            exchange=name,
            gradient_bytes=size,
            step_bytes=int(cell.value("gradient_bytes") or size),
            bare_exchange=bare[name, size],
            modelled_exchange=EXCHANGES[name](Cluster(found.link, found.link), size, RANKS),
            status=cell.status,
            reason=cell.reason,
            flags=cell.flags,
        )
        rows.append(measured(row, study, cell, weak.get(place), found, overlap))
    return rows


def measured(
    row: Row, study: Study, cell: Cell, scaling: Scaling | None, found: Found, overlap: float
) -> Row:
    """Add what was measured, and the step of the model."""
    if row.status != "ok":
        return row
    alone = one_rank_of(study, cell)
    one = alone.value("step_time") if alone else None
    two = cell.value("step_time")
    if one is None or two is None:
        return replace(row, two_ranks=two, reason="its cell of one rank was not measured")
    cluster = Cluster(found.link, found.link)
    point = simulate(Step(one, overlap=overlap), row.step_bytes, cluster, row.exchange, RANKS, weak=True)
    row = replace(row, one_rank=one, two_ranks=two, modelled=point.step, modelled_efficiency=point.efficiency)
    if scaling is None:  # disturbed, if only by the system's work on the packets of a slow network
        return row
    return replace(
        row,
        efficiency=scaling.efficiency.value,
        efficiency_lower=scaling.efficiency.lower,
        efficiency_upper=scaling.efficiency.upper,
    )


def one_rank_of(study: Study, cell: Cell) -> Cell | None:
    """Return the cell of one rank that has the batch of each rank of this cell."""

    def place_of(one: Cell) -> tuple[str, str, str, int]:
        return one.axes["workload"], one.axes["backend"], one.mode, one.batch

    wanted = (*place_of(cell)[:3], cell.batch // RANKS)
    return next(
        (one for one in study.all_cells if "ranks" not in one.variant and place_of(one) == wanted), None
    )


def with_overheads(rows: Iterable[Row]) -> list[Row]:
    """Add the overhead to the rows of each workload, backend and mode that was measured without a limit."""
    rows = list(rows)
    overheads = {
        (row.workload, row.backend, row.mode): row.two_ranks - row.modelled
        for row in rows
        if row.rate is None and row.two_ranks is not None and row.modelled is not None
    }
    return [with_overhead(row, overheads.get((row.workload, row.backend, row.mode))) for row in rows]


def with_overhead(row: Row, overhead: float | None) -> Row:
    if overhead is None or row.rate is None or row.modelled is None:
        return replace(row, overhead=overhead)
    return replace(row, overhead=overhead, modelled_with_overhead=row.modelled + overhead)


HEADINGS = (
    "network", "backend", "mode", "Mbit/s", "probe", "latency us", "exchange ms", "model", "one rank ms",
    "two ranks ms", "model", "deviation %", "with overhead", "deviation %", "efficiency %", "model", "notes",
)  # fmt: skip


def markdown(rows: Iterable[Row]) -> str:
    """Return the rows as a table."""
    texts = {"network", "backend", "mode", "notes"}
    lines = [HEADINGS, ["---" if name in texts else "---:" for name in HEADINGS], *map(cells_of, rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cells_of(row: Row) -> list[str]:
    rate = "no limit" if row.rate is None else f"{row.rate / 1e6:g}"
    network = [rate, f"{8e-6 * row.bandwidth:.1f}", f"{1e6 * row.latency:.0f}"]
    exchange = [milliseconds(row.bare_exchange), milliseconds(row.modelled_exchange)]
    times = [milliseconds(row.one_rank), milliseconds(row.two_ranks)]
    model = [milliseconds(row.modelled), percent(row.deviation, "+")]
    tuned = [milliseconds(row.modelled_with_overhead), percent(row.deviation_with_overhead, "+")]
    efficiency = [percent(row.efficiency), percent(row.modelled_efficiency)]
    notes = " ".join(row.flags if row.status == "ok" else [row.status])
    texts = [row.workload, row.backend, row.mode]
    return [*texts, *network, *exchange, *times, *model, *tuned, *efficiency, notes]


def milliseconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{1e3 * seconds:.2f}"


def percent(share: float | None, sign: str = "") -> str:
    return "" if share is None else f"{100 * share:{sign}.1f}"
