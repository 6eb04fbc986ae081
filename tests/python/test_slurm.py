"""scripts/slurm on a real Slurm: one node, in a temporary folder, as the user who runs the test."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from assay_worker.rendezvous import kept_port
from doc_pages import command_in
from framework import ENVIRONMENTS
from program import BUILD, PROGRAM, assay
from worker_under_test import ROOT

PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
MISSING = [name for name in ("slurmctld", "slurmd", "sbatch", "scancel") if not shutil.which(name, path=PATH)]

pytestmark = [
    pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built"),
    pytest.mark.skipif(bool(MISSING), reason=f"Slurm is not installed ({MISSING}): scripts/setup --slurm"),
]

# Of Debian's plugins, those that need neither munge nor root.
CONFIG = """
ClusterName=assay
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SelectType=select/cons_res
SelectTypeParameters=CR_Core
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
KillWait=2
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY")


class Cluster:
    def __init__(self, folder: Path) -> None:
        self.environment = os.environ | {
            "PATH": PATH,
            "SLURM_CONF": str(folder / "slurm.conf"),
            "ASSAY": str(PROGRAM),
            "ASSAY_BACKENDS": str(ROOT / "tests"),
        }

    def call(self, *command: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        words = [str(word) for word in command]
        return subprocess.run(
            words, env=self.environment, cwd=folder, capture_output=True, text=True, check=False, timeout=60
        )

    def facts(self, job: str) -> dict[str, str]:
        """Return what Slurm knows of a job or of a task of an array."""
        done = self.call("scontrol", "show", "job", "-o", job)
        assert done.returncode == 0, done.stderr
        return dict(word.split("=", 1) for word in done.stdout.split() if "=" in word)

    def has_ended(self, job: str) -> bool:
        return self.facts(job)["JobState"].startswith(ENDED)


def wait_until(what: str, is_true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.2)


@pytest.fixture
def ports() -> Iterator[tuple[str, str]]:
    with kept_port("127.0.0.1") as one, kept_port("127.0.0.1") as other:
        yield one.rpartition(":")[2], other.rpartition(":")[2]


@pytest.fixture
def cluster(tmp_path: Path, ports: tuple[str, str]) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    controller, node = ports
    host = socket.gethostname().split(".")[0]
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "slurm.conf").write_text(
        CONFIG.format(
            host=host, controller=controller, node=node, user=user, folder=folder, cpus=os.cpu_count()
        )
    )
    made = Cluster(folder)
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in (["slurmctld", "-D", "-i"], ["slurmd", "-D"]):
            with (folder / f"{command[0]}.log").open("wb") as log:
                daemons.append(
                    subprocess.Popen(command, env=made.environment, stdout=log, stderr=subprocess.STDOUT)
                )
        deadline = time.monotonic() + 30
        while made.call("sinfo", "--noheader", "--format=%t").stdout.strip() != "idle":
            if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in daemons):
                logs = [line for log in folder.glob("*.log") for line in log.read_text().splitlines()]
                errors = [line for line in logs if "fatal" in line or "error" in line]
                pytest.skip(f"Slurm does not start here: {(errors or logs or ['no log'])[-1]}")
            time.sleep(0.2)
        yield made
    finally:
        made.call("scancel", "--user", user)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def forks_of(report: Path) -> list[dict[str, Any]]:
    if not report.exists():
        return []
    return [fork for cell in json.loads(report.read_text())["cells"] for fork in cell["forks"]]


def process_of(report: Path) -> int:
    """Return the process that writes the report."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0] == str(PROGRAM).encode() and str(report).encode() in words:
            return int(folder.name)
    raise AssertionError(f"no process writes {report}")


def test_a_killed_task_leaves_a_report_that_is_completed(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "three.json"
    config.write_text(json.dumps({
        "workload": ["op/relu", "op/tanh", "op/sigmoid"], "size": ["1024"], "backend": ["reference"],
        "mode": ["graph", "eager"], "task": ["infer"], "cache": ["warm"], "threads": [1],
        "forks": 3, "spare-rounds": 0, "roofline": "false", "blocks": 5, "block-seconds": 0.2,
    }))  # fmt: skip
    changes = {"scripts/": f"{ROOT}/scripts/", " 8 CONFIG [options of assay run]": f" 3 {config}"}
    submit = command_in("docs/how-to/slurm.md", "scripts/slurm/submit 8", changes)
    done = cluster.call(*submit.split(), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    merge = told["merge"].removeprefix("job ")
    folder = Path(told["reports"])
    assert folder.parent == tmp_path / "reports"

    second = folder / "shard-2.json"
    wait_until("a fork of the second shard", lambda: len(forks_of(second)) > 0)
    assert len(forks_of(second)) < 6
    os.kill(process_of(second), signal.SIGKILL)  # scancel would first ask it to end
    wait_until("the end of the merging job", lambda: cluster.has_ended(merge))
    logs = "\n".join(f"{log}: {log.read_text()}" for log in sorted(folder.glob("*.log")))
    assert cluster.facts(merge)["ExitCode"] == "4:0", logs
    assert [len(forks_of(folder / f"shard-{i}.json")) for i in (1, 3)] == [6, 6], logs

    merged = folder / "merged.json"
    report = json.loads(merged.read_text())
    assert [cell["status"] for cell in report["cells"]] == [
        "ok",
        "ok",
        "interrupted",
        "interrupted",
        "ok",
        "ok",
    ]
    assert {cell["reason_code"] for cell in report["cells"][2:4]} <= {"not_reached", "forks_missing"}
    assert report["run"]["complete"] is False
    kept = [fork["start"] for cell in report["cells"][2:4] for fork in cell["forks"]]
    assert kept, "what the killed task had measured"

    done = assay("run", "--resume", merged)
    assert done.returncode == 0, done.stderr + done.stdout
    report = json.loads(merged.read_text())
    assert [cell["status"] for cell in report["cells"]] == ["ok"] * 6
    # What the killed task had of a cell has no partner in another session, so both are measured again.
    assert all(len(cell["forks"]) == 3 for cell in report["cells"][:2] + report["cells"][4:])
    assert all(3 <= len(cell["forks"]) <= 5 for cell in report["cells"][2:4])
    starts = [fork["start"] for cell in report["cells"][2:4] for fork in cell["forks"]]
    assert set(kept) <= set(starts)
    assert {cell["environment"] for cell in report["cells"][2:4]} == {1}, "the machine that began the group"
    assert assay("validate", merged).returncode == 0


def test_a_task_that_starts_again_continues_its_report(cluster: Cluster, tmp_path: Path) -> None:
    options = ("--workload", "op/relu,op/tanh", "--size", "1024", "--backend", "reference", "--mode", "graph",
               "--task", "infer", "--cache", "warm", "--threads", "1", "--spare-rounds", "0",
               "--roofline", "false", "--steps", "20")  # fmt: skip
    folder = tmp_path / "reports"
    changes = {
        "sbatch --array=3": f"sbatch --parsable --array=2 --output={tmp_path}/%a.log",
        "ASSAY_SHARDS=8 scripts/": f"ASSAY_SHARDS=2 {ROOT}/scripts/",
        "FOLDER CONFIG [options]": str(folder),
    }
    submit = command_in("docs/how-to/slurm.md", "sbatch --array=3", changes)
    for forks in (1, 2):
        done = cluster.call(*submit.split(), *options, "--forks", forks)
        assert done.returncode == 0, done.stderr
        task = f"{done.stdout.strip()}_2"
        wait_until("the end of the task", lambda task=task: cluster.has_ended(task))
        assert cluster.facts(task)["ExitCode"] == "0:0", (tmp_path / "2.log").read_text()
        assert len(forks_of(folder / "shard-2.json")) == forks
    report = json.loads((folder / "shard-2.json").read_text())
    assert report["run"]["shard"] == {"index": 2, "count": 2}
    assert len(report["run"]["sessions"]) == 2


RANKS = (
    "--workload", "mlp", "--dataset", "synthetic", "--steps", "24", "--warm-up-steps", "2",
    "--warm-up-seconds", "0", "--forks", "1", "--spare-rounds", "0", "--time-limit", "180",
)  # fmt: skip
NUMPY = (*RANKS, "--backend", "numpy", "--mode", "eager")
two_processors = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two ranks need two processors")
numpy_only = pytest.mark.skipif(
    not (ENVIRONMENTS / "numpy/bin/python").exists(), reason="numpy is not set up: scripts/setup"
)


def ended(cluster: Cluster, folder: Path, *command: object) -> str:
    """Submit a job of two tasks, wait for its end, and return what it printed."""
    options = ("--parsable", "--ntasks=2", f"--output={folder}/job.log")
    done = cluster.call("sbatch", *options, *command)
    assert done.returncode == 0, done.stderr
    job = done.stdout.strip()
    wait_until("the end of the job", lambda: cluster.has_ended(job), 600)
    printed = (folder / "job.log").read_text()
    assert cluster.facts(job)["ExitCode"] == "0:0", printed
    return printed


def cells_of(report: Path) -> dict[str, dict[str, Any]]:
    """Return the cells by the number of their ranks."""
    cells = json.loads(report.read_text())["cells"]
    assert [cell["status"] for cell in cells] == ["ok"] * len(cells), [cell["reason"] for cell in cells]
    return {"2" if "/ranks=2/" in cell["id"] else "1": cell for cell in cells}


def assert_srun_started(cell: dict[str, Any]) -> None:
    assert cell["equivalence"]["passed"]
    (fork,) = cell["forks"]
    assert (fork["settings"]["launcher"], fork["settings"]["nodes"]) == ("srun", "1")
    assert [rank["rank"] for rank in fork["ranks"]] == [0, 1]
    assert len({rank["parameters_digest"] for rank in fork["ranks"]}) == 1


@two_processors
@numpy_only
def test_srun_starts_the_ranks_of_a_cell(cluster: Cluster, tmp_path: Path) -> None:
    cluster.environment["ASSAY_SRUN"] = "--mpi=none"
    report = tmp_path / "ranks.json"
    ended(cluster, tmp_path, ROOT / "scripts/slurm/ranks.sbatch", report, *NUMPY)
    cells = cells_of(report)
    assert set(cells) == {"1", "2"}
    assert "ranks" not in cells["1"]["forks"][0]
    assert_srun_started(cells["2"])


@two_processors
@numpy_only
def test_srun_within_a_step_does_not_wait_for_it(cluster: Cluster, tmp_path: Path) -> None:
    report = tmp_path / "ranks.json"
    launcher = ("--launcher", "srun", "--launcher-arguments=--mpi=none")
    words = [PROGRAM, "run", *NUMPY, "--ranks", "2", "--threads", "1", *launcher, "--out", report]
    step = "srun --ntasks 1 --cpus-per-task 2 --mpi=none"
    ended(cluster, tmp_path, f"--wrap={step} {' '.join(map(str, words))}")
    assert_srun_started(cells_of(report)["2"])


@two_processors
def test_srun_starts_ranks_on_mpi(cluster: Cluster, tmp_path: Path) -> None:
    for file in ("onednn/assay-worker-onednn", "collectives/assay_mpi.so"):
        if not (BUILD / "backends" / file).exists():
            pytest.skip(f"{file} is not built: scripts/setup --mpi, then build again")
    listed = cluster.call("srun", "--mpi=list")
    if "pmix" not in listed.stdout + listed.stderr:
        pytest.skip("this Slurm has no plugin for PMIx")
    cluster.environment["ASSAY_SRUN"] = "--mpi=pmix"
    # Other tests want the processors, too: a rank that waits takes none from the rank that it waits for.
    cluster.environment["OMPI_MCA_mpi_yield_when_idle"] = "1"
    report = tmp_path / "ranks.json"
    options = (*RANKS, "--backend", "onednn", "--mode", "graph")
    ended(cluster, tmp_path, ROOT / "scripts/slurm/ranks.sbatch", report, *options)
    cell = cells_of(report)["2"]
    assert_srun_started(cell)
    assert cell["forks"][0]["settings"]["collectives"].startswith("mpi: ")
