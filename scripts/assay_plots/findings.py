"""Who is fastest and by how much, in sentences that need no table."""

from __future__ import annotations

from collections import Counter

from assay_plots.heading import heading
from assay_plots.report import Cell
from assay_plots.study import Group, Study, group_title, op_family, ranked_time, time_ratio
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


def work_of(cell: Cell, with_batch: bool) -> str:
    """Name the work of a cell in words."""
    a = cell.axes
    return f"{heading(cell, with_batch).title} ({a['precision']}, {a['device']} with {a['threads']} threads)"


def ranked(group: Group) -> list[tuple[float, Cell]]:
    timed = [(time, cell) for cell in group.cells if (time := ranked_time(cell)) is not None]
    return sorted(timed, key=lambda pair: pair[0])


def one_comparison(group: Group) -> str | None:
    """Say who was fastest of one group, how fast, and how far the others are behind."""
    order = ranked(group)
    if not order:
        return None
    fastest, best = order[0]
    rate = shown(best.value("samples_per_second"), "rate", "1/s").replace("/s", " samples a second")
    text = f"{work_of(best, with_batch=True)}: {best.series}"
    if len(order) == 1:
        return f"{text} reached {rate}; nothing else of it can be ranked."
    others: list[str] = []
    for time, cell in order[1:MOST_NAMED]:
        paired = time_ratio(cell, best)
        ratio = paired.value if paired else time / fastest
        known = paired is not None and paired.lower is not None
        alike = paired is not None and paired.lower is not None and paired.lower <= 1
        others.append(
            f"{cell.series} takes {'' if known else 'about '}{times_as_long(ratio, ratio)}"
            + (" (no clear difference)" if alike else "")
        )
    left = len(order) - MOST_NAMED
    more = f", and {left} more behind" if left > 0 else ""
    return f"{text} is the fastest of {len(order)} with {rate}; {', '.join(others)}{more}."


def several_sizes(groups: list[Group]) -> str | None:
    """Say of work at several sizes who is fastest most often, and the range of the others behind it."""
    orders = [order for group in groups if len(order := ranked(group)) > 1]
    if not orders:
        return None
    wins = Counter(order[0][1].series for order in orders)
    best, count = wins.most_common(1)[0]
    behind: dict[str, list[float]] = {}
    sure = True
    for order in orders:
        base = next((pair for pair in order if pair[1].series == best), None)
        for time, cell in order:
            if base is None or cell is base[1]:
                continue
            paired = time_ratio(cell, base[1])
            sure = sure and paired is not None and paired.lower is not None
            behind.setdefault(cell.series, []).append(paired.value if paired else time / base[0])
    closest = sorted(behind.items(), key=lambda item: min(item[1]))[: MOST_NAMED - 1]
    about = "" if sure else "about "
    others = [f"{name} takes {about}{times_as_long(min(r), max(r))}" for name, r in closest]
    first = groups[0].cells[0]
    sizes = plural(len(orders), "size" if first.is_op else "batch size")
    where = f"at all {sizes}" if count == len(orders) > 1 else f"at {count} of {sizes}"
    return f"{work_of(first, with_batch=False)}: {best} is the fastest {where}; {', '.join(others)}."


def findings(study: Study) -> list[str]:
    """Give a sentence to each network and to each single operator, networks first, up to a page's worth."""
    families: dict[tuple[bool, str], list[Group]] = {}
    for group in study.groups:
        first = group.cells[0]
        title = op_family(first) if group.is_op else group_title(first, with_batch=False)
        families.setdefault((group.is_op, title), []).append(group)
    found: dict[bool, list[str]] = {False: [], True: []}
    for (is_op, _), groups in families.items():
        single = len(groups) == 1 and not is_op
        if text := one_comparison(groups[0]) if single else several_sizes(groups):
            found[is_op].append(text)
    networks, ops = found[False], found[True]
    room = max(MOST_FINDINGS - min(len(ops), MOST_FINDINGS // 3), 0)
    said = networks[:room] + ops[: MOST_FINDINGS - min(len(networks), room)]
    left = len(networks) + len(ops) - len(said)
    if left:
        said.append(f"And {plural(left, 'more comparison')}: see the table.")
    if any(" about " in text for text in said):
        said.append(UNSURE)
    return said
