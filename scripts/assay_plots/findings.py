"""Sentences that say which cell is fastest, and by how much."""

from __future__ import annotations

from assay_plots.report import Cell, Group, Heading, Item, Study
from assay_plots.text import plural, shown, significant

MAX_FINDINGS = 12
MAX_NAMED = 4  # backends and modes in one sentence
UNSURE = "“about”: fewer than six shared rounds, so it has no interval, and a small difference may be noise."


def times_as_long(low: float, high: float) -> str:
    """Describe a ratio, or a range of ratios."""
    first, last = significant(low), significant(high)
    return f"{first} times as long" if first == last else f"{first} to {last} times as long"


def work_of(heading: Heading, cell: Cell) -> str:
    """Name the work of a cell in words."""
    a = cell.axes
    return f"{heading.title} ({a['precision']}, {a['device']} with {plural(int(a['threads']), 'thread')})"


def one_comparison(group: Group) -> str | None:
    """Describe the fastest cell of a group, its speed, and the ratios of the others to it."""
    order = group.ranked()
    if not order:
        return None
    best = order[0]
    first = [cell.series for cell in order if cell.rank == 1]
    metric = best.metrics.get("samples_per_second")
    rate = shown(metric.value, metric.hint, metric.unit).replace("/s", " samples a second") if metric else "–"
    text = f"{work_of(group.heading, best)}: {best.series}"
    if len(order) == 1:
        return f"{text} reached {rate}; no other cell of it can be ranked."
    others: list[str] = []
    slower = [cell for cell in order if cell.rank > 1 and cell.to_fastest is not None]
    for cell in slower[: MAX_NAMED - 1]:
        ratio = cell.to_fastest
        about = "about " if ratio.lower is None else ""
        others.append(f"{cell.series} takes {about}{times_as_long(ratio.value, ratio.value)}")
    left = len(slower) - len(others)
    if left > 0:
        others.append(f"and {left} more are slower")
    if len(first) == 1:
        answer = f"{text} is the fastest of {len(order)} with {rate}"
    else:
        alike = ", ".join(first[1:])
        answer = f"{text} reached {rate}, with no clear difference to {alike}, the fastest of {len(order)}"
    return f"{answer}{'; ' if others else ''}{', '.join(others)}."


def several_sizes(family: Item, first: Cell) -> str | None:
    """For work at several sizes: name the cell that is fastest most often, and the others' ratios to it."""
    leader = family.leader
    if leader is None:
        return None
    about = "" if leader.sure else "about "
    others = [
        f"{one.series} takes {about}{times_as_long(one.low, one.high)}"
        for one in leader.followers[: MAX_NAMED - 1]
    ]
    sizes = plural(leader.sizes, "size" if family.is_op else "batch size")
    where = f"at all {sizes}" if leader.wins == leader.sizes > 1 else f"at {leader.wins} of {sizes}"
    answer = f"{work_of(family.heading, first)}: {leader.series} is the fastest {where}; {', '.join(others)}."
    return f"{answer} {growth_of(family)}".rstrip()


def growth_of(family: Item) -> str:
    """Compare by how much the times grow with the size; empty without two series that say it."""
    shown_ones = [one for one in family.growth if one.doubling][:MAX_NAMED]
    if len(shown_ones) < 2:
        return ""
    factors = [f"{significant(one.doubling.value)} times for {one.series}" for one in shown_ones]
    size = "size" if family.is_op else "batch"
    return f"When the {size} doubles, the time is {', '.join(factors[:-1])} and {factors[-1]}."


def findings(study: Study) -> list[str]:
    """Return a sentence per network and per single operator, networks first, up to a page."""
    found: dict[bool, list[str]] = {False: [], True: []}
    for family in study.families:
        first = study.groups[family.groups[0]]
        single = len(family.groups) == 1 and not family.is_op
        if text := one_comparison(first) if single else several_sizes(family, first.cells[0]):
            found[family.is_op].append(text)
    networks, ops = found[False], found[True]
    room = max(MAX_FINDINGS - min(len(ops), MAX_FINDINGS // 3), 0)
    said = networks[:room] + ops[: MAX_FINDINGS - min(len(networks), room)]
    left = len(networks) + len(ops) - len(said)
    if left:
        said.append(f"And {plural(left, 'more comparison')}: see the table.")
    if any(" about " in text for text in said):
        said.append(UNSURE)
    return said
