"""scripts/simulate-scaling: the formulas in their closed forms, its input and its page."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from typing import Any

import pytest
from program import PROGRAM
from scaling_model import EXCHANGES, Cluster, Link, Point, Step, simulate
from worker_under_test import ROOT

SIZE, BANDWIDTH, LATENCY = 1e8, 1.25e9, 20e-6
NETWORK = Link(BANDWIDTH, LATENCY)
FLAT = Cluster(NETWORK, NETWORK)
BASE = ["--gradient-bytes", "1e8", "--compute", "0.3", "--bandwidth", "1.25e9", "--latency", "20e-6"]


def exchange(name: str, ranks: int, cluster: Cluster = FLAT) -> float:
    return EXCHANGES[name](cluster, SIZE, ranks)


def point(ranks: int, name: str = "ring", weak: bool = False, **step: float) -> Point:
    return simulate(Step(**({"compute": 0.3} | step)), SIZE, FLAT, name, ranks, weak)


@pytest.mark.parametrize("ranks", [2, 3, 8, 1000])
def test_a_ring_sends_almost_twice_the_bytes_in_two_rounds_for_each_other_rank(ranks: int) -> None:
    closed = 2 * (ranks - 1) / ranks * SIZE / BANDWIDTH + 2 * (ranks - 1) * LATENCY
    assert exchange("ring", ranks) == pytest.approx(closed, rel=1e-12)


def test_two_ranks_exchange_their_bytes_once() -> None:
    once = SIZE / BANDWIDTH + 2 * LATENCY
    assert exchange("ring", 2) == pytest.approx(once)
    assert exchange("server", 2) == pytest.approx(once)
    assert exchange("tree", 2) == pytest.approx(2 * SIZE / BANDWIDTH + 2 * LATENCY)


@pytest.mark.parametrize(("ranks", "levels"), [(2, 1), (3, 2), (4, 2), (5, 3), (1000, 10), (1024, 10)])
def test_a_tree_sends_all_bytes_up_and_down_its_levels(ranks: int, levels: int) -> None:
    assert exchange("tree", ranks) == pytest.approx(2 * levels * (SIZE / BANDWIDTH + LATENCY))


def test_a_hierarchy_of_one_machine_or_of_one_rank_in_each_is_a_ring() -> None:
    inside = Link(1e11, 1e-6)
    on_one = EXCHANGES["hierarchical"](Cluster(NETWORK, inside, 8), SIZE, 8)
    assert on_one == pytest.approx(2 * 7 / 8 * SIZE / 1e11 + 14 * 1e-6)
    one_in_each = EXCHANGES["hierarchical"](Cluster(NETWORK, inside, 1), SIZE, 8)
    assert one_in_each == pytest.approx(exchange("ring", 8))


def test_a_hierarchy_crosses_the_network_once_for_each_machine() -> None:
    inside = Link(1e11, 1e-6)
    found = exchange("hierarchical", 32, Cluster(NETWORK, inside, 8))
    between = 2 * 3 / 4 * SIZE / BANDWIDTH + 6 * LATENCY
    assert found == pytest.approx(between + 2 * 7 / 8 * SIZE / 1e11 + 14 * 1e-6)
    # The last machine of 25 is not full.
    assert exchange("hierarchical", 25, Cluster(NETWORK, inside, 8)) == pytest.approx(found)


@pytest.mark.parametrize(
    ("ranks", "servers", "times"), [(8, 0, 7 / 8), (8, 1, 8), (8, 8, 1), (8, 16, 1), (1000, 10, 100)]
)
def test_the_busiest_link_of_a_parameter_server_counts(ranks: int, servers: int, times: float) -> None:
    found = exchange("server", ranks, Cluster(NETWORK, NETWORK, servers=servers))
    assert found == pytest.approx(2 * times * SIZE / BANDWIDTH + 2 * LATENCY)


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("weak", [False, True])
def test_one_rank_exchanges_nothing(name: str, weak: bool) -> None:
    alone = point(1, name, weak)
    assert (alone.step, alone.communication, alone.speedup, alone.efficiency) == (0.3, 0, 1, 1)


@pytest.mark.parametrize("name", EXCHANGES)
@pytest.mark.parametrize("weak", [False, True])
def test_more_ranks_are_never_more_efficient(name: str, weak: bool) -> None:
    series = [point(ranks, name, weak, overlap=0.3, fixed=0.01) for ranks in range(1, 1001)]
    for before, after in pairwise(series):
        assert after.communication >= before.communication
        assert after.efficiency <= before.efficiency * (1 + 1e-12)
    assert series[-1].efficiency < series[0].efficiency


@pytest.mark.parametrize("name", EXCHANGES)
def test_a_better_network_is_never_slower(name: str) -> None:
    for ranks in (2, 7, 64, 1000):
        worse = exchange(name, ranks)
        assert EXCHANGES[name](Cluster(Link(2 * BANDWIDTH, LATENCY), NETWORK), SIZE, ranks) < worse
        assert EXCHANGES[name](Cluster(Link(BANDWIDTH, LATENCY / 2), NETWORK), SIZE, ranks) < worse


def test_strong_scaling_divides_what_is_not_fixed() -> None:
    ten = point(10, fixed=0.1)
    assert ten.compute == pytest.approx(0.1 + 0.2 / 10)
    assert ten.step == pytest.approx(ten.compute + exchange("ring", 10))
    assert ten.speedup == pytest.approx(0.3 / ten.step)
    assert ten.efficiency == pytest.approx(ten.speedup / 10)


def test_weak_scaling_divides_nothing() -> None:
    ten = point(10, weak=True)
    assert ten.compute == 0.3
    assert ten.efficiency == pytest.approx(0.3 / (0.3 + exchange("ring", 10)))


def test_ranks_wait_for_the_communication_that_does_not_overlap() -> None:
    assert point(2, weak=True, overlap=1).step == 0.3, "80 ms of 300 ms"
    half = point(2, weak=True, overlap=0.1)
    assert half.exposed == pytest.approx(exchange("ring", 2) - 0.03)


def simulated(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/simulate-scaling"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_prints_a_line_for_each_number_of_ranks() -> None:
    done = simulated(*BASE, "--ranks", "8,1,2", "--exchange", "ring,server")
    assert done.returncode == 0, done.stderr
    first, names, titles, *lines = done.stdout.splitlines()
    assert first == "100.000 MB of gradients, strong scaling; an estimate, not a measurement"
    assert names.split() == ["ring", "server"]
    assert titles.split() == ["ranks", "compute", "ms", *["step", "ms", "eff.", "%"] * 2]
    assert [line.split()[0] for line in lines] == ["1", "2", "8"]
    assert lines[1].split()[1:] == ["150.000", "230.040", "65.2", "230.040", "65.2"]


def told(*arguments: str) -> Any:
    done = simulated(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_json_has_what_was_given_and_each_point() -> None:
    found = told(*BASE, "--scaling", "weak", "--per-machine", "4", "--inside-bandwidth", "1e10")
    assert found["gradient_bytes"] == 1e8
    assert found["scaling"] == "weak"
    assert found["one_rank"] == {"compute": 0.3, "fixed": 0, "overlap": 0}
    assert found["cluster"]["network"] == {"bandwidth": 1.25e9, "latency": 20e-6}
    assert found["cluster"]["inside"] == {"bandwidth": 1e10, "latency": 20e-6}
    points = {(one["exchange"], one["ranks"]): one for one in found["points"]}
    assert {name for name, _ in points} == set(EXCHANGES)
    assert max(ranks for _, ranks in points) == 1000
    closed = 2 * 999 / 1000 * SIZE / BANDWIDTH + 2 * 999 * LATENCY
    assert points["ring", 1000]["communication"] == pytest.approx(closed)
    assert points["ring", 1000]["step"] == pytest.approx(0.3 + closed)
    assert points["ring", 1000]["efficiency"] == pytest.approx(0.3 / (0.3 + closed))


def test_a_hierarchy_is_left_out_where_a_machine_has_one_rank() -> None:
    assert {one["exchange"] for one in told(*BASE)["points"]} == set(EXCHANGES) - {"hierarchical"}


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_takes_the_gradients_of_a_workload() -> None:
    named = ["--workload", "lenet5", "--program", str(PROGRAM), *BASE[2:]]
    assert told(*named)["gradient_bytes"] == 4 * 60170


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.parametrize(("name", "words"), [("lenet6", "lenet5"), ("op/relu", "no parameters")])
def test_refuses_a_workload_without_gradients(name: str, words: str) -> None:
    done = simulated("--workload", name, "--program", str(PROGRAM), *BASE[2:])
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--gradient-bytes", "0"], "above 0"),
        (["--compute", "-1"], "above 0"),
        (["--compute", "nan"], "must be a number"),
        (["--bandwidth", "0"], "above 0"),
        (["--bandwidth", "inf"], "must be a number"),
        (["--latency=-1e-6"], "0 or more"),
        (["--latency", "soon"], "must be a number"),
        (["--overlap", "1.1"], "0 to 1"),
        (["--fixed", "0.4"], "cannot be longer"),
        (["--ranks", "0"], "1 to 100000"),
        (["--ranks", "1,,2"], "must be a whole number"),
        (["--per-machine", "0"], "1 to 100000"),
        (["--servers", "-1"], "must be a whole number"),
        (["--exchange", "star"], "ring, tree, hierarchical, server"),
        (["--scaling", "super"], "strong"),
        (["--workload", "lenet5"], "not allowed with"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_refuses_bad_input_by_name(wrong: list[str], words: str) -> None:
    done = simulated(*BASE, *wrong)
    assert done.returncode == 2
    assert words in done.stderr
    assert not done.stdout


def test_needs_the_gradients_and_the_network() -> None:
    for left_out in (0, 2, 4, 6):
        done = simulated(*BASE[:left_out], *BASE[left_out + 2 :])
        assert done.returncode == 2
        assert BASE[left_out] in done.stderr


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_table_of_the_page_is_what_its_command_prints() -> None:
    page = (ROOT / "docs/how-to/scale.md").read_text(encoding="utf-8")
    found = re.search(r"^    (scripts/simulate-scaling (?:.*\\\n)*.*)\n\n((?:    .*\n)+)", page, re.MULTILINE)
    assert found, "the page has the command"
    command, table = found.groups()
    done = simulated("--program", str(PROGRAM), *shlex.split(command.replace("\\\n", " "))[1:])
    assert done.returncode == 0, done.stderr
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert printed == [line[4:].rstrip() for line in table.splitlines()]
