"""scripts/lab/campaign: a short run of each campaign finds no violation."""

from __future__ import annotations

import pytest
from campaigns import campaign
from program import PROGRAM

pytestmark = pytest.mark.skipif(
    not (PROGRAM.parent / "tests/faults/fault_worker").exists(), reason="fault_worker is not built"
)


SAMPLE = [
    ("kill", 2, 1),
    ("signals", 3, 6),
    ("places", 3, 0),
    ("reports", 3, 1),
    ("data", 3, 0),
    ("exchanges", 4, 0),
    ("surroundings", 4, 62),
    ("workers", 3, 0),
    ("soak", 10, 0),
]
WHOLE = [("kill", 3, 1), ("reports", 12, 1), ("soak", 40, 0)]
TABLES = ["signals", "places", "data", "exchanges", "surroundings", "workers"]


@pytest.mark.parametrize(
    ("name", "count", "seed"),
    [*SAMPLE, *(pytest.param(*row, marks=pytest.mark.nightly) for row in WHOLE)],
)
def test_a_short_campaign_finds_no_violation(name: str, count: int, seed: int) -> None:
    done = campaign(name, "--count", count, "--seed", seed)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  0 violations" in done.stdout
    units = int(done.stdout.split(" of ")[0].split(": ")[1])
    assert units >= count


@pytest.mark.nightly
@pytest.mark.parametrize("name", TABLES)
def test_no_row_of_a_table_is_a_violation(name: str) -> None:
    done = campaign(name)
    assert done.returncode == 0, done.stdout + done.stderr
    units, of = done.stdout.split(": ")[1].split(" in ")[0].split(" of ")
    assert units == of, "each row once"
