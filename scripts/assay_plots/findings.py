"""Who is fastest and by how much, in sentences that need no table."""

from __future__ import annotations

from assay_plots.report import Cell, Family, Group, Heading, Study
from assay_plots.text import plural, shown, significant

MOST_FINDINGS = 12
MOST_NAMED = 4  # backends and modes in one sentence
UNSURE = (
    "“about”: fewer than six shared rounds, so there is no interval, and a small difference may be noise."
)


def times_as_long(low: float, high: float) -> str:
    """Say one ratio, or a range of them."""
    first, last = significant(low), significant(high)
    return f"{first} times as long" if first == last else f"{first} to {last} times as long"


def work_of(heading: Heading, cell: Cell) -> str:
    """Name the work of a cell in words."""
    a = cell.axes
    return f"{heading.title} ({a['precision']}, {a['device']} with {a['threads']} threads)"


def one_comparison(group: Group) -> str | None:
    """Say who was fastest of one group, how fast, and how far the others are behind."""
    order = group.ranked()
    if not order:
        return None
    best = order[0]
    metric = best.metrics.get("samples_per_second")
    rate = shown(metric.value, metric.hint, metric.unit).replace("/s", " samples a second") if metric else "–"
    text = f"{work_of(group.heading, best)}: {best.series}"
    if len(order) == 1:
        return f"{text} reached {rate}; nothing else of it can be ranked."
    others: list[str] = []
    for cell in order[1:MOST_NAMED]:
        ratio = cell.to_fastest
        if ratio is None:
            continue
        alike = ratio.lower is not None and ratio.lower <= 1
        others.append(
            f"{cell.series} takes {'about ' if ratio.lower is None else ''}"
            f"{times_as_long(ratio.value, ratio.value)}" + (" (no clear difference)" if alike else "")
        )
    left = len(order) - MOST_NAMED
    more = f", and {left} more behind" if left > 0 else ""
    return f"{text} is the fastest of {len(order)} with {rate}; {', '.join(others)}{more}."


def several_sizes(family: Family, first: Cell) -> str | None:
    """Say of work at several sizes who is fastest most often, and the range of the others behind it."""
    leader = family.leader
    if leader is None:
        return None
    about = "" if leader.sure else "about "
    others = [
        f"{one.series} takes {about}{times_as_long(one.low, one.high)}"
        for one in leader.followers[: MOST_NAMED - 1]
    ]
    sizes = plural(leader.sizes, "size" if family.is_op else "batch size")
    where = f"at all {sizes}" if leader.wins == leader.sizes > 1 else f"at {leader.wins} of {sizes}"
    return f"{work_of(family.heading, first)}: {leader.series} is the fastest {where}; {', '.join(others)}."


def findings(study: Study) -> list[str]:
    """Give a sentence to each network and to each single operator, networks first, up to a page's worth."""
    found: dict[bool, list[str]] = {False: [], True: []}
    for family in study.families:
        first = study.groups[family.groups[0]]
        single = len(family.groups) == 1 and not family.is_op
        if text := one_comparison(first) if single else several_sizes(family, first.cells[0]):
            found[family.is_op].append(text)
    networks, ops = found[False], found[True]
    room = max(MOST_FINDINGS - min(len(ops), MOST_FINDINGS // 3), 0)
    said = networks[:room] + ops[: MOST_FINDINGS - min(len(networks), room)]
    left = len(networks) + len(ops) - len(said)
    if left:
        said.append(f"And {plural(left, 'more comparison')}: see the table.")
    if any(" about " in text for text in said):
        said.append(UNSURE)
    return said
