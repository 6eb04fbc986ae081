"""Ranks on several hosts, which namespaces stand in for."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doc_pages import command_in
from framework import ENVIRONMENTS, command_of
from hosts import address_of, mpirun_arguments, name_of
from mutant_worker import HERE, register
from program import PROGRAM
from rank_mistakes import RANK_MISTAKES
from test_ranks import EACH, MODES, MXNET, ON_MPI, QUICK, SHORT, TORCH, WORKERS, wrong_tensors
from test_slurm import CONFIG, MISSING, PATH
from worker_under_test import ROOT

HOSTS = [sys.executable, str(ROOT / "tests/python/hosts.py")]


def why_no_hosts() -> str:
    """Return why this machine cannot stand in for several; empty if it can."""
    folders = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for name in ("ip", "tc", "nsenter", "taskset"):
        if not shutil.which(name, path=folders):
            return f"{name} is not installed"
    with tempfile.TemporaryDirectory() as folder:
        words = [*HOSTS, "2", "100", folder, f"{folder}/on", "node2", "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    return f"no hosts of namespaces here: {done.stderr.strip()[-300:]}" if done.returncode else ""


NO_HOSTS = why_no_hosts()
pytestmark = [
    pytest.mark.skipif(bool(NO_HOSTS), reason=NO_HOSTS),
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built"),
]
MPIRUN = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed: scripts/setup --mpi")


class Run:
    """One call of `assay run` on the first of several hosts.

    `slots`: the number of ranks on each. `private`: what hosts.py gives each of them for itself.
    `script`: of a shell, in which RUN is the call. `mutant`: of the backend's worker.
    """

    def __init__(
        self,
        folder: Path,
        backend: str,
        options: dict[str, str] | None = None,
        *,
        slots: tuple[int, ...] = (1, 1),
        mbit: float = 1000,
        private: str = "",
        script: str = "RUN",
        mutant: str = "",
        **variables: str,
    ) -> None:
        self.report, self.hosts = folder / "report/report.json", folder / "hosts"
        self.report.parent.mkdir(exist_ok=True)
        temporary = folder / "tmp"
        temporary.mkdir(exist_ok=True)
        given = SHORT | {"steps": "8", "launcher": "mpirun", "ranks": str(sum(slots)), "backend": backend}
        given |= {"mode": MODES.get(backend, "eager"), "out": str(self.report)}
        given |= {"launcher-arguments": mpirun_arguments(self.hosts, slots)} | (options or {})
        self.command = [str(PROGRAM), "run", *(f"--{name}={value}" for name, value in given.items())]
        backends = WORKERS[backend]
        if mutant:
            command = [*command_of(backend, HERE / "mutant_worker.py", "eager"), str(backends), mutant]
            backends = register(folder, backend, backends, mutant, command=command)
        words = ["--private", private.replace("TMP", str(temporary))] if private else []
        other = [*self.command, f"--out={self.report.parent}/other.json"]
        other.remove(f"--out={self.report}")
        words_of = {"RUN": shlex.join(self.command), "OTHER": shlex.join(other), "HOSTS": str(self.hosts)}
        script = re.sub(r"\b(RUN|OTHER|HOSTS)\b", lambda word: words_of[word[0]], script)
        script = script.replace("=FOLDER", f"={folder}")
        self.process = subprocess.Popen(
            [*HOSTS, str(len(slots)), str(mbit), str(self.hosts), *words, "sh", "-c", script],
            env=os.environ | {"ASSAY_BACKENDS": str(backends), "TMPDIR": str(temporary)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait(self) -> str:
        """Return what was printed until everything on the first host had ended."""
        try:
            self.printed, _ = self.process.communicate(timeout=150)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.printed

    def cells(self) -> list[dict[str, Any]]:
        """Return the cells of its report, after it was validated."""
        assert self.wait() is not None
        assert self.report.exists(), self.printed
        valid = subprocess.run(
            [str(PROGRAM), "validate", str(self.report)], capture_output=True, text=True, check=False
        )
        assert valid.returncode == 0, valid.stderr + valid.stdout
        self.written = json.loads(self.report.read_text())
        found: list[dict[str, Any]] = self.written["cells"]
        return found

    def end(self) -> dict[str, Any]:
        """Return the only cell of its report."""
        (cell,) = self.cells()
        return cell

    def shown(self) -> str:
        command = [str(PROGRAM), "show", str(self.report)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check_ranks(run: Run, cell: dict[str, Any], hosts: list[str]) -> None:
    assert cell["status"] == "ok", cell["reason"] + run.printed
    assert cell["equivalence"]["passed"]
    (fork,) = cell["forks"]
    assert [rank["host"] for rank in fork["ranks"]] == hosts
    assert fork["settings"]["nodes"] == str(len(set(hosts)))
    assert len({rank["parameters_digest"] for rank in fork["ranks"]}) == 1
    assert [host["name"] for host in run.written["hosts"]] == sorted(set(hosts))
    assert "unlike_hosts" not in fork.get("flags", [])
    table = run.shown()
    assert "Machines of ranks" in table
    assert all(host in table for host in hosts)


@MPIRUN
@pytest.mark.parametrize("private", ["", "TMP"], ids=["shared", "copied"])
def test_ranks_of_mpirun_on_two_hosts_are_equal_to_one_process(tmp_path: Path, private: str) -> None:
    run = Run(tmp_path, "numpy", private=private)
    check_ranks(run, run.end(), ["node1", "node2"])


@MPIRUN
def test_two_ranks_on_each_of_two_hosts(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", {"batch": "16"}, slots=(2, 2), private="TMP")
    check_ranks(run, run.end(), ["node1", "node1", "node2", "node2"])


@TORCH.skip
def test_one_torchrun_on_each_host(tmp_path: Path) -> None:
    arguments = "--nnodes 2 --rdzv-backend c10d --rdzv-endpoint node1:29477"
    options = {"launcher": "torchrun", "launcher-arguments": arguments}
    options |= {"launcher-prefix": str(tmp_path / "hosts/on-each")}
    run = Run(tmp_path, "torch", options, private="TMP")
    cell = run.end()
    hosts = sorted(rank["host"] for rank in cell["forks"][0]["ranks"])
    assert hosts == ["node1", "node2"]
    check_ranks(run, cell, [rank["host"] for rank in cell["forks"][0]["ranks"]])


@MPIRUN
def test_the_command_of_the_page_on_clusters(tmp_path: Path) -> None:
    changes = {
        "assay run --workload resnet56 --backend torch": f"{PROGRAM} run --workload mlp --backend numpy",
        "--batch 256": "--batch 32",
        "--threads 4": f"--threads 1 {QUICK}",
        '"--host node1:4,node2:4"': shlex.quote(mpirun_arguments(tmp_path / "hosts", [4, 4])),
        "ranks.json": str(tmp_path / "report/report.json"),
    }
    command = command_in("docs/how-to/cluster.md", "assay run --workload resnet56", changes)
    run = Run(tmp_path, "numpy", slots=(4, 4), script=command)
    one, eight = run.cells()
    assert one["status"] == "ok", one["reason"]
    check_ranks(run, eight, ["node1"] * 4 + ["node2"] * 4)


@MPIRUN
@pytest.mark.parametrize("backend", EACH)
def test_a_backend_trains_on_two_hosts(tmp_path: Path, backend: str) -> None:
    if backend != "onednn" and not (ENVIRONMENTS / backend / "bin/python").exists():
        pytest.skip(f"{backend} is not set up: scripts/setup --framework {backend}")
    run = Run(tmp_path, backend, private="TMP")
    check_ranks(run, run.end(), ["node1", "node2"])


@MPIRUN
@pytest.mark.parametrize(
    "mistake",
    [
        pytest.param(name, marks=[] if name in ("SumsGradients", "StartsElsewhere") else pytest.mark.nightly)
        for name in RANK_MISTAKES
    ],
)
def test_a_mistake_of_ranks_is_found_across_hosts(tmp_path: Path, mistake: str) -> None:
    run = Run(tmp_path, "numpy", private="TMP", mutant=mistake)
    cell = run.end()
    assert cell["status"] == "wrong_result", cell["reason"]
    shows = RANK_MISTAKES[mistake].shows
    assert any(name.startswith(shows) for name in wrong_tensors(cell)), wrong_tensors(cell)


@MPIRUN
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("backend", "hosts", "options"),
    [
        pytest.param("torch", 4, {"workload": "lenet5", "batch": "16"}, marks=TORCH.skip),
        pytest.param("torch", 2, {"workload": "resnet56", "batch": "8"}, marks=TORCH.skip),
        pytest.param("torch", 4, {"workload": "resnet56", "batch": "8"}, marks=TORCH.skip),
        pytest.param(
            "torch",
            2,
            {"workload": "googlenet_bn", "batch": "8", "image-size": "48", "classes": "10"},
            marks=TORCH.skip,
        ),
        pytest.param("onednn", 4, {"workload": "lenet5", "batch": "16"}, marks=ON_MPI),
        pytest.param("onednn", 2, {"workload": "resnet56", "batch": "8"}, marks=ON_MPI),
    ],
)
def test_networks_on_two_and_four_hosts(
    tmp_path: Path, backend: str, hosts: int, options: dict[str, str]
) -> None:
    run = Run(tmp_path, backend, options, slots=(1,) * hosts, private="TMP")
    check_ranks(run, run.end(), [name_of(number) for number in range(hosts)])


@MPIRUN
def test_a_step_takes_as_long_as_its_network(tmp_path: Path) -> None:
    rate = 20e6
    run = Run(tmp_path, "numpy", {"batch": "16", "steps": "6"}, mbit=rate / 1e6)
    cell = run.end()
    check_ranks(run, cell, ["node1", "node2"])
    # Rank 0 of numpy collects the gradients and returns their sum.
    by_rate = 2 * 8 * cell["metrics"]["gradient_bytes"]["value"] / rate
    assert by_rate < cell["metrics"]["bare_exchange_time"]["value"] < 1.3 * by_rate
    assert cell["metrics"]["step_time"]["value"] > by_rate


# Prints how many processes of the run are on both hosts, after they had time to end.
LEFT = """
for i in $(seq 300); do
  left=$(for host in node1 node2; do
    HOSTS/on $host sh -c 'cat /proc/[0-9]*/environ 2>/dev/null' | tr '\\0' '\\n'
  done | grep -c ^ASSAY_FOLDER=FOLDER)
  [ $left = 0 ] && break
  sleep 0.1
done
echo left $left
"""


@MPIRUN
@pytest.mark.parametrize(
    ("fault", "status", "code", "words"),
    [
        ("crash", "crashed", "killed_by_signal", "SIGSEGV"),
        ("exception", "failed", "worker_failed", ""),
        ("loop", "timed_out", "time_limit", "no answer during"),
    ],
)
def test_a_rank_that_fails_is_named_with_its_host(
    tmp_path: Path, fault: str, status: str, code: str, words: str
) -> None:
    options = {"check": "false", "time-limit": "3" if fault == "loop" else "60"}
    run = Run(
        tmp_path, "numpy", options, private="TMP", mutant=fault, script="RUN" + LEFT, ASSAY_FAULT_RANK="1"
    )
    cell = run.end()
    assert (cell["status"], cell["reason_code"]) == (status, code), cell["reason"]
    assert "1 on node2" in cell["reason"], cell["reason"]
    assert words in cell["reason"]
    assert "left 0" in run.printed


# Does something to the hosts once a worker is on the second one.
DURING = """
RUN &
until HOSTS/on node2 sh -c 'cat /proc/[0-9]*/cmdline' 2>/dev/null | tr '\\0' ' ' | grep -q worker.py
do
  sleep 0.1
done
sleep 0.5
{what}
wait
"""
LONG = {"check": "false", "steps": "1000000", "time-limit": "100"}


@MPIRUN
def test_a_host_that_loses_its_network_ends_the_row(tmp_path: Path) -> None:
    script = DURING.format(what="HOSTS/on node2 ip link set dev assay0 down") + LEFT
    run = Run(tmp_path, "numpy", LONG, private="TMP", script=script)
    cell = run.end()
    assert cell["status"] == "failed", cell["reason"]
    assert cell["reason_code"] in ("host_lost", "launcher_failed"), cell["reason"]
    assert "node2" in cell["reason"]
    assert "left 0" in run.printed


@MPIRUN
def test_an_interrupt_ends_the_ranks_on_all_hosts(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", LONG, private="TMP", script=DURING.format(what="kill -TERM $!") + LEFT)
    cell = run.end()
    assert (cell["status"], cell["reason_code"]) == ("interrupted", "interrupted_by_signal"), cell["reason"]
    assert "left 0" in run.printed


@MPIRUN
def test_a_conductor_that_is_killed_leaves_nothing_on_any_host(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", LONG, private="TMP", script=DURING.format(what="kill -KILL $!") + LEFT)
    assert "left 0" in run.wait()


@MPIRUN
def test_a_full_disk_on_a_host_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", private="TMP=300k")
    cell = run.end()
    assert (cell["status"], cell["reason_code"]) == ("failed", "files"), cell["reason"]
    assert "node2" in cell["reason"]
    assert "No space left" in cell["reason"]


@MPIRUN
def test_another_build_on_a_host_is_a_doubt(tmp_path: Path) -> None:
    other, own = tmp_path / "worker.py", WORKERS["numpy"] / "worker.py"
    other.write_text(own.read_text() + "\n# another version\n")
    script = f"HOSTS/on node2 mount --bind {other} {own} && RUN"
    run = Run(tmp_path, "numpy", private="TMP", script=script)
    cell = run.end()
    (fork,) = cell["forks"]
    assert "unlike_hosts" in fork["flags"]
    assert "node2 has another build of numpy: here/worker.py" in "".join(fork["warnings"])


@MPIRUN
def test_another_library_on_a_host_is_a_doubt(tmp_path: Path) -> None:
    (own,) = (ENVIRONMENTS / "numpy/lib").glob("python3*/site-packages/numpy/version.py")
    other = tmp_path / "version.py"
    other.write_text(own.read_text() + '\nversion = __version__ = "1.99.0"\n')
    run = Run(tmp_path, "numpy", private="TMP", script=f"HOSTS/on node2 mount --bind {other} {own} && RUN")
    cell = run.end()
    assert cell["status"] == "ok", cell["reason"]
    (fork,) = cell["forks"]
    assert "unlike_hosts" in fork["flags"]
    assert re.search(r"node1 has numpy [\d.]+, and node2 has 1\.99\.0", "".join(fork["warnings"]))


AHEAD = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
  int status = real(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += 86400;
  return status;
}
time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return to ? (*to = now.tv_sec) : now.tv_sec;
}
int gettimeofday(struct timeval *to, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


@MPIRUN
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_the_calendar_of_a_host_does_not_matter(tmp_path: Path) -> None:
    # There is no namespace for the time of day. Every program on the second host loads this library instead.
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", tmp_path / "ahead.so", "-ldl"],
        input=AHEAD, text=True, check=True,
    )  # fmt: skip
    for name in ("upper", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / "upper/ld.so.preload").write_text(f"{tmp_path}/ahead.so\n")
    (tmp_path / "upper/hosts").write_text("".join(f"{address_of(n)} {name_of(n)}\n" for n in range(2)))
    layers = f"lowerdir=/etc,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    times = "; ".join(f"HOSTS/on {name} date +'{name} %s'" for name in ("node1", "node2"))
    run = Run(
        tmp_path, "numpy", private="TMP",
        script=f"HOSTS/on node2 mount -t overlay overlay -o {layers} /etc || echo no overlay; {times}; RUN",
    )  # fmt: skip
    cell = run.end()
    if "no overlay" in run.printed:
        pytest.skip("no overlay of /etc here")
    told = dict(re.findall(r"^(node\d) (\d+)$", run.printed, re.MULTILINE))
    assert 86000 < int(told["node2"]) - int(told["node1"]) < 87000
    check_ranks(run, cell, ["node1", "node2"])


@MPIRUN
def test_a_slow_rank_is_seen_where_it_does_not_wait_for_others(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", private="TMP", mutant="slow", ASSAY_FAULT_RANK="1")
    cell = run.end()
    check_ranks(run, cell, ["node1", "node2"])
    fast, slow = cell["forks"][0]["ranks"]
    assert min(slow["exchange"]["local_seconds"]) > 0.03
    assert min(fast["exchange"]["local_seconds"]) < 0.03
    assert cell["metrics"]["step_time"]["value"] > 0.03, "a step takes as long as on the slowest host"


@MPIRUN
@MXNET.skip
def test_mxnets_servers_are_on_the_host_of_the_rank_that_is_asked_for(tmp_path: Path) -> None:
    count = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c ^DMLC_ROLE=server"
    wait = f'until [ "$(HOSTS/on node2 sh -c "{count}")" = 2 ]; do sleep 0.1; done'
    wait += "; echo two servers; kill -TERM $!"
    asked = {"environment": "MXNET_SERVER_RANKS=1,1"}
    run = Run(tmp_path, "mxnet", asked)
    cell = run.end()
    check_ranks(run, cell, ["node1", "node2"])
    assert cell["forks"][0]["settings"]["data_parallel"] == "kvstore dist_sync, 2 servers of rank 1, 1"
    (tmp_path / "again").mkdir()
    run = Run(tmp_path / "again", "mxnet", LONG | asked, private="TMP", script=DURING.format(what=wait))
    assert "two servers" in run.wait()


@MPIRUN
def test_two_runs_on_the_same_hosts_do_not_meet(tmp_path: Path) -> None:
    run = Run(tmp_path, "numpy", private="TMP", script="RUN & OTHER; wait")
    check_ranks(run, run.end(), ["node1", "node2"])
    (cell,) = json.loads((tmp_path / "report/other.json").read_text())["cells"]
    assert cell["status"] == "ok", cell["reason"]


SLURM = """
slurmctld -D -i >{folder}/slurmctld.log 2>&1 &
for node in {nodes}; do HOSTS/on $node slurmd -D >{folder}/$node.log 2>&1 & done
for i in $(seq 300); do
  [ "$(sinfo --noheader --format=%t)" = idle ] && break
  sleep 0.1
done
"""


def slurm_on(folder: Path, hosts: int) -> str:
    """Return the part of a script that starts Slurm, with a node on each host."""
    (folder / "state").mkdir()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    names = [name_of(number) for number in range(hosts)]
    text = CONFIG.format(
        host="node1", controller=6817, node=6818, user=user, folder=folder, cpus=os.cpu_count()
    )
    changed = [
        f"NodeName={name} NodeAddr={address_of(number)} CPUs={os.cpu_count()} State=UNKNOWN"
        for number, name in enumerate(names)
    ]
    kept = [line for line in text.splitlines() if not line.startswith(("NodeName=", "SlurmctldHost="))]
    text = "\n".join([*kept[:1], f"SlurmctldHost=node1({address_of(0)})", *changed, *kept[1:], ""])
    (folder / "slurm.conf").write_text(
        text.replace(f"{folder}/spool", f"{folder}/spool.%n").replace("slurmd.pid", "slurmd.%n.pid")
    )
    return SLURM.format(folder=folder, nodes=" ".join(names))


SLURM_IS_HERE = pytest.mark.skipif(
    bool(MISSING), reason=f"Slurm is not installed ({MISSING}): scripts/setup --slurm"
)


@pytest.fixture
def cluster() -> Iterator[Path]:
    """Return a folder for a cluster: the sockets in it need a short path."""
    with tempfile.TemporaryDirectory(prefix="slurm", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def in_slurm(folder: Path, cluster: Path, hosts: int, backend: str, script: str, **variables: str) -> Run:
    """Run a script where Slurm has these hosts; SBATCH in it is what is submitted, with its report."""
    ranks = f"--output={folder}/job.log {ROOT}/scripts/slurm/ranks.sbatch {folder}/report/report.json"
    script = f"{slurm_on(cluster, hosts)}{script.replace('SBATCH', ranks)}\ncat {folder}/job.log; kill 0"
    settings = {"SLURM_CONF": str(cluster / "slurm.conf"), "ASSAY": str(PROGRAM), "PATH": PATH}
    (cluster / "tmp").mkdir()
    settings |= {"TMPDIR": str(cluster / "tmp")} | variables
    return Run(folder, backend, slots=(1,) * hosts, private=str(cluster / "tmp"), script=script, **settings)


ON_PAGE = {"scripts/slurm/ranks.sbatch ranks.json": "SBATCH", "--batch 200": f"--batch 32 {QUICK}"}


@SLURM_IS_HERE
def test_eight_ranks_on_four_nodes_of_slurm(tmp_path: Path, cluster: Path) -> None:
    changes = ON_PAGE | {"--cpus-per-task=2": "--cpus-per-task=1"}
    changes |= {"--workload lenet5 --backend torch": "--workload mlp --backend numpy"}
    command = command_in("docs/how-to/slurm.md", "sbatch --wait", changes)
    run = in_slurm(tmp_path, cluster, 4, "numpy", command, ASSAY_SRUN="--mpi=none --overcommit")
    one, eight = run.cells()
    assert one["status"] == "ok", one["reason"]
    check_ranks(run, eight, [name_of(number // 2) for number in range(8)])
    assert eight["forks"][0]["settings"]["launcher"] == "srun"
    page = tmp_path / "pictures"
    names = {"ranks.json": str(run.report), "pictures": str(page), "scripts/plot": f"{ROOT}/scripts/plot"}
    plot = command_in("docs/how-to/slurm.md", "scripts/plot", names)
    done = subprocess.run(
        shlex.split(plot), env=os.environ | {"ASSAY_PROGRAM": str(PROGRAM)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (page / "index.html").read_text()
    assert "Machines of ranks" in text
    assert "<summary>node4</summary>" in text


@SLURM_IS_HERE
@ON_MPI
def test_ranks_on_mpi_on_two_nodes_of_slurm(tmp_path: Path, cluster: Path) -> None:
    if not list(Path("/usr/lib").glob("*/slurm*/mpi_pmix*.so")):
        pytest.skip("this Slurm has no plugin for PMIx")
    variables = command_in("docs/how-to/slurm.md", 'export ASSAY_SRUN="--mpi=pmix', {})
    changes = ON_PAGE | {"sbatch --nodes": "sbatch --wait --nodes", "--workload lenet5": "--workload mlp"}
    command = command_in("docs/how-to/slurm.md", "sbatch --nodes=2", changes)
    # A rank that waits takes no processor from the others.
    idle = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    run = in_slurm(tmp_path, cluster, 2, "onednn", f"{variables}\n{command}", **idle)
    one, four = run.cells()
    assert one["status"] == "ok", one["reason"]
    check_ranks(run, four, ["node1", "node1", "node2", "node2"])


@SLURM_IS_HERE
@TORCH.skip
def test_torchrun_on_two_nodes_of_slurm(tmp_path: Path, cluster: Path) -> None:
    changes = {
        "assay run": f"{PROGRAM} run --out {tmp_path}/report/report.json {QUICK}",
        "--batch 200": "--batch 16",
        "--ranks 8": "--ranks 2",
        "node1:29500": "node1:29478",
    }
    command = command_in("docs/how-to/cluster.md", "assay run --workload lenet5", changes)
    run = in_slurm(tmp_path, cluster, 2, "torch", command)
    (cell,) = run.cells()
    hosts = [rank["host"] for rank in cell["forks"][0]["ranks"]]
    assert sorted(hosts) == ["node1", "node2"]
    check_ranks(run, cell, hosts)


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
def test_nothing_is_left_of_hosts(tmp_path: Path, ending: signal.Signals) -> None:
    before = socket.if_nameindex()
    folder = tmp_path / "hosts"
    facts = "hostname; readlink /proc/self/ns/net"
    asked = f"{facts}; {folder}/agent node2 '{facts}; cat /etc/hosts | grep -c node'"
    process = subprocess.Popen(
        [*HOSTS, "3", "100", str(folder), "sh", "-c", f"{asked}; exec sleep 600"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    try:
        here, first, there, second, known = (process.stdout.readline().strip() for _ in range(5))
        assert (here, there, known) == (name_of(0), name_of(1), "3")
        assert address_of(1) == "10.77.0.2"
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
