"""Ranks in two network namespaces, which stand in for two machines."""

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

import pytest
from framework import ENVIRONMENTS
from network_namespaces import ADDRESSES, launcher_arguments
from program import PROGRAM
from worker_under_test import ROOT

TWO_NETWORKS = [sys.executable, str(ROOT / "tests/python/network_namespaces.py")]


def why_no_namespaces() -> str:
    """Return why this machine has no two networks; empty if it has."""
    folders = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in ("ip", "tc", "nsenter", "unshare"):
        if not shutil.which(name, path=folders):
            return f"{name} is not installed"
    # Without a user namespace, then with one; the qdisc may also be missing in the kernel.
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
pytestmark = pytest.mark.skipif(bool(NO_NAMESPACES), reason=NO_NAMESPACES)


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
@pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed: scripts/setup --mpi")
@pytest.mark.skipif(
    not (ENVIRONMENTS / "numpy/bin/python").exists(), reason="numpy is not set up: scripts/setup"
)
def test_a_step_takes_as_long_as_its_network(tmp_path: Path) -> None:
    agent, report, rate = tmp_path / "agent", tmp_path / "report.json", 20e6
    options = (
        "--workload mlp --dataset synthetic --backend numpy --mode eager --threads 1 --batch 16 --steps 6"
    )
    options += " --warm-up-steps 2 --warm-up-seconds 0 --forks 1 --spare-rounds 0 --ranks 2 --keep-folders"
    options += f" --launcher mpirun --rendezvous {ADDRESSES[0]} --out {report}"
    command = [str(PROGRAM), "run", *options.split(), "--launcher-arguments", launcher_arguments(agent)]
    done = subprocess.run(
        [*TWO_NETWORKS, f"{rate / 1e6:g}", str(agent), *command],
        env=os.environ | {"ASSAY_BACKENDS": str(ROOT / "tests"), "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    logs = "".join(log.read_text() for log in tmp_path.rglob("launcher.log"))
    assert done.returncode == 0, done.stderr + done.stdout + logs
    (cell,) = json.loads(report.read_text())["cells"]
    assert cell["equivalence"]["passed"]
    (fork,) = cell["forks"]
    settings = fork["settings"]
    assert (settings["launcher"], settings["nodes"], settings["rendezvous"]) == ("mpirun", "2", ADDRESSES[0])
    # Rank 0 of numpy collects the gradients and returns their sum.
    by_rate = 2 * 8 * cell["metrics"]["gradient_bytes"]["value"] / rate
    assert by_rate < cell["metrics"]["bare_exchange_time"]["value"] < 1.3 * by_rate
    assert cell["metrics"]["step_time"]["value"] > by_rate


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


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_two_networks(tmp_path: Path, ending: signal.Signals) -> None:
    before = socket.if_nameindex()
    agent = tmp_path / "agent"
    asked = f"hostname; readlink /proc/self/ns/net; {agent} HOST 'hostname; readlink /proc/self/ns/net'"
    process = subprocess.Popen(
        [*TWO_NETWORKS, "100", str(agent), "sh", "-c", f"{asked}; exec sleep 600"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        here, first, there, second = (process.stdout.readline().strip() for _ in range(4))
        assert (here, there) == ADDRESSES
        assert len({first, second, network_of(Path("/proc/self"))}) == 3
        assert len(processes_in({first, second})) >= 2, "the test would find them"
    finally:
        process.send_signal(ending)
    assert process.wait(30) == -ending
    until = time.monotonic() + 30
    while (left := processes_in({first, second})) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert socket.if_nameindex() == before
