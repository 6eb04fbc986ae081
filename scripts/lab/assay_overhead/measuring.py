"""How a cell is measured: pairs until there are enough, and disturbed ones again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from assay_overhead.cells import Cell
from assay_overhead.pair import Conditions, Pair, PairError
from assay_overhead.results import Results


@dataclass(frozen=True)
class Wanted:
    """The conditions under which a cell is complete."""

    conditions: Conditions
    pairs: int
    retries: int  # of a cell, for pairs that were disturbed
    again: bool = False  # from zero, even if the cell is complete
    accept_disturbed: bool = False


def measure(cell: Cell, results: Results, wanted: Wanted, make: Callable[[Cell, int], Pair]) -> bool:
    """Measure the missing pairs of a cell; return whether it has all of them.

    `make` gets the cell and the number of the pair, counted from 0.
    """
    done, again = results.start(cell, wanted.pairs, wanted.again), 0
    while done < wanted.pairs:
        try:
            pair = make(cell, done)
        except PairError as error:
            results.fail(cell, str(error))
            return False
        counted = [one for one in pair.ratios if wanted.accept_disturbed or not one.flags]
        if 2 * len(counted) < wanted.conditions.turns:
            results.make_again(cell)
            again += 1
            if again > wanted.retries:
                return False
            continue
        results.add(cell, pair, counted, wanted.conditions.loop_environment)
        done += 1
    return True
