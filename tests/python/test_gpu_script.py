"""scripts/gpu: which commands run, and what it reports of those that fail. The programs are stand-ins."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from program import BUILD, PROGRAM

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = (
    "assay",
    "op_cuda_test",
    "cuda_gpu_test",
    "assay-kernels-cuda",
)


def program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


class Machine:
    """With an nvidia-smi, a build whose programs write down their arguments, and one that fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment: dict[str, str] = {}
        (folder / "bin").mkdir()
        (folder / "build").mkdir()
        program(folder / "bin/nvidia-smi", "echo 9.0")
        for name in PROGRAMS:
            self.make(name, 0)

    def make(self, name: str, status: int) -> None:
        program(
            self.folder / "build" / name,
            f'echo "{name} $*" >>{self.folder}/calls; echo "of {name}"; '
            f'echo "$LD_LIBRARY_PATH" >>{self.folder}/library_paths; exit {status}',
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        folder = self.folder
        command = [str(ROOT / "scripts/gpu"), "--build", str(folder / "build"), "--out", str(folder / "out")]
        environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"} | self.environment
        return subprocess.run(
            [*command, *arguments], capture_output=True, text=True, check=False, env=environment
        )

    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_runs_each_command_once(machine: Machine) -> None:
    first = machine.run("--stage", "conformance,kernels", "--lanes", "3")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "All is done" in first.stdout
    done = machine.calls()
    assert len([call for call in done if call.startswith("op_cuda_test")]) == 4, "in four parts"
    assert machine.run("--stage", "conformance,kernels").returncode == 0
    assert machine.calls() == done, "what is done is not repeated"


def test_names_what_failed_and_tries_it_again(machine: Machine) -> None:
    machine.make("cuda_gpu_test", 3)
    failed = machine.run("--stage", "conformance")
    assert failed.returncode == 4
    assert "search: exit code 3" in failed.stdout
    assert "conformance_op_0:" not in failed.stdout.split("Not done yet")[1]
    machine.make("cuda_gpu_test", 0)
    assert machine.run("--stage", "conformance").returncode == 0


def test_selects_commands_by_name(machine: Machine) -> None:
    assert machine.run("--stage", "check,kernels", "--only", "lstm").returncode == 0
    assert len(machine.calls()) == 3, "two checks, one list of kernels"
    assert all("lstm" in call for call in machine.calls())


def test_ends_a_command_after_its_seconds(machine: Machine) -> None:
    program(machine.folder / "bin/timeout", f'echo "$*" >>{machine.folder}/calls; exit 124')
    slow = machine.run("--stage", "kernels", "--only", "mlp")
    assert slow.returncode == 4
    assert "kernels_mlp_fp32: exit code 124" in slow.stdout
    (call,) = machine.calls()
    assert call.startswith("--signal INT --kill-after 20 20 "), "of the nine minutes of the call"


def test_compares_two_builds_on_one_card(machine: Machine) -> None:
    old = machine.folder / "old"
    old.mkdir()
    done = machine.run(
        "--against", str(old), "--rows", "*/relu*", "--stage", "touched,against", "--lanes", "1"
    )
    assert "sanitize: compute-sanitizer is missing" in done.stdout or done.returncode == 0
    calls = machine.calls()
    assert "op_cuda_test --gtest_filter=*/relu*:*Traps*" in calls
    pairs = [call for call in calls if call.startswith("assay ab ")]
    assert len(pairs) == 5
    assert all(f"--a build={old} --b build={machine.folder / 'build'}" in call for call in pairs)


def test_the_old_build_must_be_named(machine: Machine) -> None:
    assert "needs --against OLD" in machine.run("--stage", "against").stderr


def test_leaves_one_file_to_carry_home(machine: Machine) -> None:
    assert machine.run("--stage", "kernels").returncode == 0
    (archive,) = (machine.folder / "out").glob("*.tgz")
    with tarfile.open(archive) as carried:
        assert "./kernels_mlp_fp32.log" in carried.getnames()


def test_packs_a_build_with_what_it_needs(machine: Machine) -> None:
    worker = machine.folder / "build/backends/cuda"
    worker.mkdir(parents=True)
    program(worker / "assay-worker-cuda", "")
    (worker / "libassay_backend_cuda.a").write_text("objects")
    (machine.folder / "build/libassay_batch.so").write_text("library")
    answers = machine.folder / "answers"
    answers.mkdir()
    (answers / "mlp").write_text("answer")
    packed = machine.folder / "packed"
    done = machine.run("--pack", str(packed), "--oracle", str(answers))
    assert done.returncode == 0, done.stderr
    assert str(packed) in done.stdout
    found = {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
    assert found == {*PROGRAMS, "libassay_batch.so", "backends/cuda/assay-worker-cuda", "oracle/mlp"}
    machine.environment["ASSAY_CACHE"] = str(machine.folder / "cache")
    assert machine.run("--build", str(packed), "--stage", "kernels").returncode == 0
    assert (machine.folder / "cache/oracle/mlp").read_text() == "answer"


@pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
def test_the_program_understands_every_command(machine: Machine) -> None:
    refused = machine.folder / "refused"
    (machine.folder / "build/backends").symlink_to(BUILD / "backends")
    program(
        machine.folder / "build/assay",
        f'[ "$1" = env ] || {PROGRAM} "$@" --dry-run >/dev/null 2>{machine.folder}/why.$$\n'
        f'[ $? != 2 ] || {{ echo "$*"; cat {machine.folder}/why.$$; }} >>{refused}',
    )
    machine.run(
        "--stage",
        "describe,breadth,check,table,targets,touched,against",
        "--against",
        str(BUILD),
        "--lanes",
        "2",
    )
    assert not refused.exists(), refused.read_text()


def test_refuses_an_unknown_stage_before_any_work(machine: Machine) -> None:
    refused = machine.run("--stage", "conformance,tables")
    assert refused.returncode == 1
    assert "unknown stage tables" in refused.stderr
    assert machine.calls() == []


def test_starts_nothing_that_cannot_end_in_time(machine: Machine) -> None:
    short = machine.run("--stage", "kernels", "--minutes", "0.1")
    assert short.returncode == 4
    assert "not started, no time was left" in short.stdout
    assert machine.calls() == []


def test_takes_the_answers_of_another_machine_along(machine: Machine) -> None:
    answers, cache = machine.folder / "other/oracle", machine.folder / "cache"
    answers.mkdir(parents=True)
    (answers / "mlp.safetensors").write_text("of the other machine")
    machine.environment["ASSAY_CACHE"] = str(cache)
    for _ in range(2):
        assert machine.run("--stage", "kernels", "--oracle", str(answers)).returncode == 0
        assert [path.name for path in (cache / "oracle").iterdir()] == ["mlp.safetensors"]
        (cache / "oracle/mlp.safetensors").write_text("kept")
    assert (cache / "oracle/mlp.safetensors").read_text() == "kept"


def test_finds_the_libraries_of_python_packages(machine: Machine) -> None:
    libraries = machine.folder / "site/nvidia/cudnn/lib"
    libraries.mkdir(parents=True)
    machine.environment |= {"PYTHONPATH": str(machine.folder / "site"), "LD_LIBRARY_PATH": "/given"}
    assert machine.run("--stage", "kernels", "--python", sys.executable).returncode == 0
    paths = (machine.folder / "library_paths").read_text().splitlines()
    assert paths
    for path in paths:
        assert str(libraries) in path.split(":")
        assert path.endswith(":/given")
