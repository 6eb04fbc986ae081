"""The verdict on a claim from what was measured. Bounds and intervals decide, never a median."""

from __future__ import annotations

import math
from dataclasses import dataclass

from assay_plots.claims.catalogue import Rule
from assay_plots.report import Item
from assay_plots.text import plural, significant

HOLDS, NO_LONGER, REVERSED = "holds", "no longer", "reversed"
UNDECIDED, ABSENT, UNMEASURED = "undecided", "not on this machine", "not measured"
VERDICTS = (HOLDS, NO_LONGER, REVERSED, UNDECIDED, ABSENT, UNMEASURED)
DECIDED = (HOLDS, NO_LONGER, REVERSED)
ALIKE = 1.05  # at most: an interval within 1 / ALIKE and ALIKE shows that two sides are alike
ROUNDS = 6  # an interval needs that many
MOST_REASONS = 3  # of several pairs


@dataclass(frozen=True, slots=True)
class Verdict:
    word: str
    reason: str = ""
    where: str = ""  # device, data and loops of what decided it


def margin_below(effect: float | None) -> float:
    """Return how far apart two sides may be and still be alike: half of the claimed effect, at most ALIKE.

    A claim that names no size of its effect has no such margin: then nothing is alike.
    """
    if effect is None or effect <= 0:
        return 1.0
    return min(ALIKE, math.exp(abs(math.log(effect)) / 2))


def _decided(rule: Rule, bounds: tuple[float, ...], low: float, high: float, effect: float | None) -> Verdict:
    bound = bounds[0]
    if rule.kind == "between":
        if bound <= low and high <= bounds[1]:
            return Verdict(HOLDS)
        if high < bound or low > bounds[1]:
            return Verdict(NO_LONGER)
        return Verdict(UNDECIDED)
    if rule.kind == "equal":
        return Verdict(HOLDS if low == high == bound else NO_LONGER)
    if rule.kind == "below":  # below 0.5 is above 2 of the reciprocals
        bound, low, high = 1 / bound, 1 / high, 1 / low
    if low > bound or (rule.kind == "at_least" and low >= bound):
        return Verdict(HOLDS)
    margin = margin_below(effect)
    if margin > 1 and low >= 1 / margin and high <= margin:
        return Verdict(NO_LONGER, f"alike within {100 * (margin - 1):.2g} %")
    if high < min(bound, 1):
        return Verdict(REVERSED)
    return Verdict(NO_LONGER) if high < bound else Verdict(UNDECIDED)


def decide(rule: Rule, published: float | None, measured: Item, exact: bool) -> Verdict:
    """Give the verdict on one pair of cells, or on one cell."""
    bounds = rule.bounds or ((published,) if published is not None else ())
    if not bounds:
        return Verdict(UNDECIDED, "the study gives no number to compare with")
    effect = published if published is not None else bounds[0] if bounds[0] != 1 else None
    if exact:
        return _decided(rule, bounds, measured.value, measured.value, effect)
    if measured.lower is not None and measured.upper is not None:
        found = _decided(rule, bounds, measured.lower, measured.upper, effect)
        both = f"the interval of {plural(measured.n, 'round')} holds both answers"
        return Verdict(UNDECIDED, both) if found.word == UNDECIDED else found
    if measured.n == 0:
        return Verdict(UNDECIDED, "the two sides share no round")
    seen = ""
    if measured.least is not None and measured.greatest is not None and measured.n > 1:
        seen = f", here from {significant(measured.least)} to {significant(measured.greatest)}"
    return Verdict(UNDECIDED, f"an interval needs {ROUNDS} rounds, there {_are(measured.n)}{seen}")


def _are(count: int) -> str:
    return f"{'is' if count == 1 else 'are'} {plural(count, 'round')}"


def against_another_loop(verdicts: list[Verdict]) -> Verdict:
    """Give the verdict on one pair and on the same cell with other partners: they must all say the same."""
    first, *others = [verdict for verdict in verdicts if verdict.word != ABSENT] or verdicts
    if first.word not in DECIDED or all(other.word == first.word for other in others):
        return verdicts[0]
    said = [f"{first.word} against the first"] + [f"{other.word} against another" for other in others]
    return Verdict(UNDECIDED, f"it depends on the partner's loop: {', '.join(said)}")


def together(verdicts: list[Verdict]) -> Verdict:
    """Give the verdict on several pairs. A claim is of all of them: one clear counterexample refutes it."""
    seen = [verdict for verdict in verdicts if verdict.word != ABSENT] or verdicts
    words = [verdict.word for verdict in seen]
    where = "; ".join(dict.fromkeys(verdict.where for verdict in seen if verdict.where))
    if len(set(words)) > 1:
        counted = ", ".join(f"{words.count(word)} {word}" for word in VERDICTS if word in words)
        refuted = REVERSED in words or NO_LONGER in words
        return Verdict(NO_LONGER if refuted else UNDECIDED, f"of {len(words)} pairs: {counted}", where)
    reasons = list(dict.fromkeys(verdict.reason for verdict in seen if verdict.reason))
    if len(seen) < len(verdicts):
        reasons.append(f"{len(verdicts) - len(seen)} of {len(verdicts)} pairs {ABSENT}")
    return Verdict(words[0], "; ".join(reasons[:MOST_REASONS]), where)
