"""scripts/test: what it asks scripts/setup and CMake for. The programs are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STAND_INS = """
tools=$root/tools
build() { echo "build $*" >>"$root/calls"; }
"""


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def run_with(
    folder: Path, nvidia_smi: str, programs: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it where nvcc is installed, with other programs by name."""
    passing = 'echo "All checks passed, 1 passed, 100% tests passed"'
    for name in (
        "scripts/format",
        "scripts/lab/check-types",
        "tools/bin/pytest",
        "tools/bin/python",
        "tools/bin/ruff",
        "bin/ctest",
    ):
        program(folder / name, (programs or {}).get(name, passing))
    program(folder / "bin/nvcc", "exit 0")
    program(folder / "bin/nvidia-smi", nvidia_smi)
    program(folder / "scripts/setup", f'echo "setup $*" >>{folder}/calls')
    (folder / "scripts/common.sh").write_text((ROOT / "scripts/common.sh").read_text() + STAND_INS)
    shutil.copy(ROOT / "scripts/test", folder / "scripts/test")
    environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        [str(folder / "scripts/test"), "--clang"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize(
    ("nvidia_smi", "architecture"),
    [("echo 8.9", "89"), ("echo NVIDIA-SMI has failed; exit 9", "90"), ("exit 9", "90")],
)
def test_builds_the_tests_of_cuda_where_nvcc_is_installed(
    tmp_path: Path, nvidia_smi: str, architecture: str
) -> None:
    done = run_with(tmp_path, nvidia_smi)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "calls").read_text().splitlines() == [
        "setup --checks --cuda-headers",
        f"build dev -DASSAY_CUDA_ARCHITECTURES={architecture}",
        f"build clang -DASSAY_CUDA_ARCHITECTURES={architecture}",
    ]


@pytest.mark.parametrize(
    ("name", "stage"),
    [("bin/ctest", "ctest dev"), ("tools/bin/pytest", "pytest"), ("tools/bin/ruff", "ruff")],
)
def test_a_failed_stage_fails_it_after_the_others_have_run(tmp_path: Path, name: str, stage: str) -> None:
    done = run_with(tmp_path, "exit 9", {name: 'echo "it went wrong"; exit 3'})
    assert done.returncode == 1
    assert "it went wrong" in done.stdout
    assert f"failed: {stage}" in done.stderr
    assert "mypy: All checks passed" in done.stdout
    assert "Tests passed" not in done.stdout
