"""The verdict on a claim from what was measured. Bounds and intervals decide, never a median."""

from __future__ import annotations

from dataclasses import dataclass

from assay_plots.claims.catalogue import Rule
from assay_plots.report import Item
from assay_plots.text import plural, significant

HOLDS, NO_LONGER, REVERSED = "holds", "no longer", "reversed"
UNDECIDED, ABSENT = "undecided", "not on this machine"
VERDICTS = (HOLDS, NO_LONGER, REVERSED, UNDECIDED, ABSENT)
ALIKE = 1.05  # an interval within 1 / ALIKE and ALIKE shows that two sides are alike
ROUNDS = 6  # an interval needs that many
MOST_REASONS = 3  # of several pairs
BOTH = "the interval holds both answers"


@dataclass(frozen=True, slots=True)
class Verdict:
    word: str
    reason: str = ""


def _decided(rule: Rule, bounds: tuple[float, ...], low: float, high: float) -> Verdict:
    bound = bounds[0]
    if rule.kind == "between":
        if bound <= low and high <= bounds[1]:
            return Verdict(HOLDS)
        if high < bound or low > bounds[1]:
            return Verdict(NO_LONGER)
        return Verdict(UNDECIDED, BOTH)
    if rule.kind == "equal":
        return Verdict(HOLDS if low == high == bound else NO_LONGER)
    if rule.kind == "below":  # below 0.5 is above 2 of the reciprocals
        bound, low, high = 1 / bound, 1 / high, 1 / low
    if low > bound or (rule.kind == "at_least" and low >= bound):
        return Verdict(HOLDS)
    if low >= 1 / ALIKE and high <= ALIKE:
        return Verdict(NO_LONGER, f"alike within {100 * (ALIKE - 1):.0f} %")
    if high < min(bound, 1):
        return Verdict(REVERSED)
    return Verdict(NO_LONGER) if high < bound else Verdict(UNDECIDED, BOTH)


def judge(rule: Rule, published: float | None, measured: Item, exact: bool) -> Verdict:
    """Give the verdict on one pair of cells, or on one cell."""
    bounds = rule.bounds or ((published,) if published is not None else ())
    if not bounds:
        return Verdict(UNDECIDED, "the study gives no number to compare with")
    if exact:
        return _decided(rule, bounds, measured.value, measured.value)
    if measured.lower is not None and measured.upper is not None:
        return _decided(rule, bounds, measured.lower, measured.upper)
    if measured.n == 0:
        return Verdict(UNDECIDED, "the two sides share no round")
    seen = ""
    if measured.least is not None and measured.greatest is not None and measured.n > 1:
        seen = f", here from {significant(measured.least)} to {significant(measured.greatest)}"
    return Verdict(UNDECIDED, f"an interval needs {ROUNDS} rounds, there {_are(measured.n)}{seen}")


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {plural(count, 'round')}"


def together(verdicts: list[Verdict]) -> Verdict:
    """Give the verdict on several pairs: what all that were measured say, else how many say what."""
    seen = [verdict for verdict in verdicts if verdict.word != ABSENT] or verdicts
    words = [verdict.word for verdict in seen]
    if len(set(words)) > 1:
        counted = ", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)
        return Verdict(UNDECIDED, f"of {len(words)} pairs: {counted}")
    reasons = list(dict.fromkeys(verdict.reason for verdict in seen if verdict.reason))
    if len(seen) < len(verdicts):
        reasons.append(f"{len(verdicts) - len(seen)} of {len(verdicts)} pairs {ABSENT}")
    return Verdict(words[0], "; ".join(reasons[:MOST_REASONS]))
