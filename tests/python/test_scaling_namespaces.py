"""scripts/scaling-namespaces: two ranks over a limited network next to the model, and what is left of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import made_report
import pytest
from assay_plots.analysis import read_study
from assay_plots.report import Study
from network_namespaces import ADDRESSES, TOOLS
from network_probe import Found, rounds_of
from program import PROGRAM
from scaling_model import EXCHANGES, Cluster, Link
from scaling_rows import Row, deviation_of, markdown, rows_of, with_overheads
from worker_under_test import ROOT

SCRIPT = ROOT / "scripts/scaling-namespaces"
SIZE = 1_000_000
LINK = Link(bandwidth=1e7, latency=1e-3)
needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def why_no_namespaces() -> str:
    """Return why this machine cannot run the script; empty if it can."""
    folders = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in (*TOOLS, "unshare", "mpirun"):
        if not shutil.which(name, path=folders):
            return f"{name} is not installed"
    # As the script: without a user namespace, then with one; the qdisc may also be missing in the kernel.
    tbf = "tbf rate 1mbit burst 4kb latency 9ms"
    limited = f"ip link add veth1 type veth peer name veth2 && tc qdisc add dev veth1 root {tbf}"
    for namespaces in (["--net", "--uts"], ["--user", "--map-root-user", "--net", "--uts"]):
        command = ["unshare", *namespaces, "sh", "-c", limited]
        done = subprocess.run(
            command, env=os.environ | {"PATH": folders}, capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            return ""
    return f"no network namespaces with a rate limit here: {done.stderr.strip()}"


NO_NAMESPACES = why_no_namespaces()
needs_namespaces = pytest.mark.skipif(bool(NO_NAMESPACES), reason=NO_NAMESPACES)


def study_of(tmp_path: Path, two: str = "ok", with_one: bool = True, step_bytes: int = 0) -> Study:
    """Return cells with the same batch of a rank: one rank takes 10 ms per step, two ranks take 150 ms."""
    m = made_report.Maker()
    axes: dict[str, Any] = {"workload": "mlp", "threads": 1}
    one = m.cell("torch", "eager", "framework", m.steps_forks(1e-2, made_report.WIDE, 3), **axes, batch=256)
    both = m.cell(
        "torch", "eager", "framework", m.ranks_forks(0.15, made_report.WIDE, 2, None), **axes, batch=512
    )
    both |= {"variant": {"ranks": "2"}, "id": both["id"].replace("/steps", "/ranks=2/steps")}
    if step_bytes:
        both["metrics"] |= {
            "gradient_bytes": made_report.metric([step_bytes] * made_report.WIDE, "B", "bytes")
        }
    if two != "ok":
        both = made_report.unrun(both, two, "rank 1: the worker died of SIGSEGV")
    path = tmp_path / "report.json"
    path.write_text(json.dumps(made_report.report([one, both] if with_one else [both])))
    return read_study([path], program=PROGRAM)


def row_of(study: Study, rate: float | None = 1e8, link: Link = LINK, **how: Any) -> Row:
    (row,) = rows_of(study, rate, Found(link, [0.11]), [("ring", SIZE)], {"mlp": SIZE}, **how)
    return row


@needs_program
def test_a_row_has_the_measured_and_the_modelled_step(tmp_path: Path) -> None:
    row = row_of(study_of(tmp_path))
    assert (row.workload, row.backend, row.mode, row.batch) == ("mlp", "torch", "eager", 256)
    assert row.one_rank == pytest.approx(1e-2, rel=0.1)
    assert row.two_ranks == pytest.approx(0.15, rel=0.1)
    assert row.one_rank and row.two_ranks and row.modelled
    # All bytes once in each direction, in two rounds.
    assert row.modelled_exchange == pytest.approx(SIZE / 1e7 + 2 * 1e-3)
    assert row.modelled == pytest.approx(row.one_rank + 0.102)
    assert row.deviation == pytest.approx(row.two_ranks / (row.one_rank + 0.102) - 1)
    assert row.efficiency == pytest.approx(1 / 15, rel=0.15)
    assert row.modelled_efficiency == pytest.approx(row.one_rank / row.modelled)
    assert (row.bare_exchange, row.overhead) == (0.11, None)


@needs_program
def test_the_step_has_the_bytes_that_the_backend_gives_to_the_exchange(tmp_path: Path) -> None:
    assert row_of(study_of(tmp_path)).step_bytes == SIZE, "not measured: those of the parameters"
    row = row_of(study_of(tmp_path, step_bytes=1_200_000))
    assert (row.gradient_bytes, row.step_bytes) == (SIZE, 1_200_000)
    assert row.one_rank
    assert row.modelled == pytest.approx(row.one_rank + 0.122)
    assert row.modelled_exchange == pytest.approx(0.102), "of the probe"


@needs_program
def test_what_overlaps_is_not_part_of_the_modelled_step(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    row = row_of(study, overlap=0.5)
    assert row.one_rank
    assert row.modelled == pytest.approx(row.one_rank + 0.102 - 0.5 * row.one_rank)
    hidden = row_of(study, link=Link(1e12, 0), overlap=0.5)
    assert hidden.modelled == hidden.one_rank


@needs_program
def test_the_overhead_is_what_ranks_cost_without_a_limit(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    free, limited = with_overheads([row_of(study, None, Link(1e9, 0)), row_of(study)])
    assert free.one_rank and free.two_ranks and limited.modelled
    overhead = free.two_ranks - free.one_rank - SIZE / 1e9
    assert free.overhead == pytest.approx(overhead)
    assert free.modelled_with_overhead is None, "it would be what was measured"
    assert limited.modelled_with_overhead == pytest.approx(limited.modelled + overhead)
    (alone,) = with_overheads([row_of(study)])
    assert alone.overhead is None and alone.deviation_with_overhead is None


@needs_program
@pytest.mark.parametrize(
    ("how", "reason"), [({"two": "crashed"}, "SIGSEGV"), ({"with_one": False}, "one rank")]
)
def test_a_cell_that_was_not_measured_is_a_row_with_its_reason(
    tmp_path: Path, how: dict[str, Any], reason: str
) -> None:
    row = row_of(study_of(tmp_path, **how))
    assert reason in row.reason
    assert row.modelled is None and row.deviation is None
    assert row.document()["deviation"] is None


@needs_program
def test_the_table_has_a_line_for_each_row(tmp_path: Path) -> None:
    rows = [row_of(study_of(tmp_path), None), row_of(study_of(tmp_path, two="crashed"))]
    heading, rule, first, second = markdown(with_overheads(rows)).splitlines()
    assert heading.count("|") == rule.count("|") == first.count("|") == second.count("|")
    assert first.startswith("| mlp | torch | eager | no limit | 80.0 | 1000 | 110.00 | 102.00 | ")
    assert "| 100 |" in second and second.endswith("| crashed |")


def test_a_deviation_is_relative_to_the_model() -> None:
    assert deviation_of(1.2, 1.0) == pytest.approx(0.2)
    assert deviation_of(None, 1.0) is None


@pytest.mark.parametrize("name", ["ring", "tree", "server"])
@pytest.mark.parametrize("size", [4, 6, SIZE])
def test_the_probe_sends_what_the_model_counts(name: str, size: int) -> None:
    rounds = rounds_of(name, size)
    link = Link(bandwidth=1.0, latency=0.0)
    assert sum(max(one) for one in rounds) == EXCHANGES[name](Cluster(link, link), size, 2)
    assert len(rounds) == EXCHANGES[name](Cluster(Link(1e30, 1.0), link), size, 2)


def test_two_ranks_have_no_hierarchy() -> None:
    with pytest.raises(ValueError, match="hierarchical"):
        rounds_of("hierarchical", SIZE)


def command(*arguments: object) -> list[str]:
    return [sys.executable, str(SCRIPT), *map(str, arguments)]


def called(*arguments: object, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | variables
    return subprocess.run(command(*arguments), env=environment, capture_output=True, text=True, check=False)


# Answers as the program. `run` writes where it and a rank of the other machine are, and waits.
STAND_IN = """#!/usr/bin/env python3
import json, os, socket, subprocess, sys, time
if sys.argv[1] == "inspect":
    if sys.argv[2] != "mlp":
        sys.exit("assay: unknown workload")
    print(json.dumps({"parameters": 25000}))
    sys.exit(0)
if code := os.environ.get("CODE"):
    sys.exit(int(code))
words = sys.argv[sys.argv.index("--launcher-arguments") + 1].split()
agent = words[words.index("plm_rsh_agent") + 1]
asked = "hostname; readlink /proc/self/ns/net"
there = subprocess.run([agent, "10.77.0.2", *asked.split(" ")], capture_output=True, text=True, check=True)
here = [os.getpid(), socket.gethostname(), os.readlink("/proc/self/ns/net")]
told = {"here": here, "there": there.stdout.split()}
with open(os.environ["TOLD"] + ".part", "w") as file:
    json.dump(told, file)
os.rename(file.name, os.environ["TOLD"])
time.sleep(600)
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    program = tmp_path / "assay"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--rates", "0"], "0.1 to 100000"),
        (["--rates", "fast"], "must be a number"),
        (["--threads", "0"], "1 to 1024"),
        (["--batch", "0"], "must be a whole number"),
        (["--overlap", "1.1"], "0 to 1"),
        (["--exchange", "hierarchical"], "ring"),
        (["--backend", "numpy,"], "must be names"),
        (["--program", "/no/such/program"], "no such program"),
        (["--workload", "lenet6"], "unknown workload"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_refuses_bad_input_by_name(tmp_path: Path, stand_in: Path, wrong: list[str], words: str) -> None:
    usual = ["--workload", "mlp", "--backend", "numpy", "--program", stand_in, "--out", tmp_path / "out"]
    done = called(*usual, *wrong)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


@needs_namespaces
def test_refuses_a_folder_that_has_something(tmp_path: Path, stand_in: Path) -> None:
    done = called("--workload", "mlp", "--backend", "numpy", "--program", stand_in, "--out", tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr


@pytest.mark.parametrize(("missing", "package"), [("mpirun", "scripts/setup --mpi"), ("tc", "iproute2")])
def test_names_what_is_missing(tmp_path: Path, stand_in: Path, missing: str, package: str) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in {"mpirun", "python3"} - {missing}:
        (folder / name).symlink_to(sys.executable)
    arguments = ["--workload", "mlp", "--backend", "numpy", "--program", stand_in, "--out", tmp_path / "out"]
    # /usr/sbin is searched even if it is not in PATH.
    if missing == "tc" and any(Path(place, "tc").exists() for place in ("/usr/sbin", "/sbin")):
        pytest.skip("tc is in /usr/sbin, which the script searches")
    done = called(*arguments, PATH=str(folder))
    assert done.returncode == 2
    assert f"{missing} is missing" in done.stderr and package in done.stderr


# The script where unshare(2) is refused, and every program is there.
REFUSED = """
import runpy, shutil, sys
import network_namespaces
network_namespaces.unshared = lambda flags: False
shutil.which = lambda name, path=None: name
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_says_what_is_not_permitted(tmp_path: Path, stand_in: Path) -> None:
    arguments = ["--workload", "mlp", "--backend", "numpy", "--program", stand_in, "--out", tmp_path / "out"]
    code = f"import sys; sys.argv = {[str(SCRIPT), *map(str, arguments)]}" + REFUSED
    environment = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "run it as root" in done.stderr and "unshare -Urn true" in done.stderr


def network_of(process: Path) -> str:
    return str((process / "ns/net").readlink())


def processes_in(namespaces: set[str]) -> list[str]:
    """Return the processes that are in one of these network namespaces."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if network_of(process) in namespaces:
                found.append((process / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended
            continue
    return found


@needs_namespaces
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGKILL"])
def test_nothing_is_left_after_a_signal(tmp_path: Path, stand_in: Path, name: str) -> None:
    before = socket.if_nameindex()
    file, temporary = tmp_path / "told", tmp_path / "tmp"
    temporary.mkdir()
    variables = {"TOLD": str(file), "TMPDIR": str(temporary)}
    arguments = ["--workload", "mlp", "--backend", "numpy", "--program", stand_in, "--out", tmp_path / "out"]
    script = subprocess.Popen(command(*arguments, "--rates", "100"), env=os.environ | variables)
    try:
        until = time.monotonic() + 60
        while not file.exists() and script.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        told = json.loads(file.read_text())
        assert processes_in({told["here"][2], told["there"][1]}), "the test would find them"
    finally:
        script.send_signal(getattr(signal, name))
    assert script.wait(30) == (-9 if name == "SIGKILL" else 128 + getattr(signal, name))
    (_, here, first), (there, second) = told["here"], told["there"]
    assert (here, there) == ADDRESSES
    assert len({first, second, network_of(Path("/proc/self"))}) == 3
    until = time.monotonic() + 30
    while (left := processes_in({first, second})) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert socket.if_nameindex() == before
    if name != "SIGKILL":
        assert not list(temporary.iterdir())


@needs_namespaces
def test_the_program_gets_ranks_launcher_and_rendezvous(tmp_path: Path, stand_in: Path) -> None:
    out = tmp_path / "out"
    arguments = ["--workload", "mlp", "--backend", "a,b", "--program", stand_in, "--out", out, "--batch", "8"]
    done = called(*arguments, "--rates", "100", "--", "--forks", "3", CODE="1")
    assert done.returncode == 2
    assert "ended with exit code 1" in done.stderr
    for words in (
        "--ranks 1,2 --workload mlp --backend a,b --threads 1 --scaling weak ",
        "--rendezvous 10.77.0.1 --launcher mpirun --launcher-arguments '--host 10.77.0.1:1,10.77.0.2:1 ",
        f"--out {out}/100-mbit.json",
        "--batch 8 --forks 3",
    ):
        assert words in done.stderr


@needs_program
@needs_namespaces
def test_numpy_takes_as_long_as_the_model_where_the_network_decides(tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = [
        "--workload",
        "mlp",
        "--backend",
        "numpy",
        "--program",
        PROGRAM,
        "--out",
        out,
        "--batch",
        "8",
    ]
    # Rank 0 of numpy collects the gradients and returns their sum: a tree.
    arguments += ["--rates", "none,20", "--exchange", "tree"]
    small = "--dataset synthetic --steps 6 --warm-up-steps 2 --warm-up-seconds 0 --forks 1 --spare-rounds 0"
    done = called(*arguments, "--", *small.split(), "--mode", "eager", ASSAY_BACKENDS=str(ROOT / "tests"))
    document = json.loads((out / "scaling.json").read_text())
    free, limited = document["rows"]
    assert done.returncode == 0, done.stderr + done.stdout
    assert (free["rate"], limited["rate"]) == (None, 20e6)
    assert 20e6 * 0.8 < 8 * limited["bandwidth"] < 20e6, "headers take some of the rate"
    assert limited["bare_exchange"] == pytest.approx(limited["modelled_exchange"], rel=0.2)
    assert limited["modelled_exchange"] == pytest.approx(
        2 * limited["gradient_bytes"] / limited["bandwidth"], rel=0.1
    )
    assert limited["modelled_exchange"] > 5 * limited["one_rank"], "the network decides"
    assert abs(limited["deviation"]) < 0.2
    efficiency = limited["one_rank"] / limited["two_ranks"]
    assert efficiency == pytest.approx(limited["modelled_efficiency"], rel=0.3)
    assert (out / "scaling.md").read_text() in done.stdout
    cells = json.loads((out / "20-mbit.json").read_text())["cells"]
    (two,) = [cell for cell in cells if cell["axes"].get("variant", {}).get("ranks") == "2"]
    assert two["equivalence"]["passed"]
    settings = two["forks"][0]["settings"]
    assert (settings["launcher"], settings["nodes"], settings["rendezvous"]) == ("mpirun", "2", "10.77.0.1")
