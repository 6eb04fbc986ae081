"""scripts/test: what it asks scripts/setup and CMake for, and what it prints last. Programs are stand-ins."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from test_failures import MAX_LINES, Failure, shown  # noqa: E402

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
    for name in ("test", "test_failures.py", "stage_times.py", "test_budget.json"):
        shutil.copy(ROOT / "scripts" / name, folder / "scripts" / name)
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


# They write what CTest and pytest write: the folder of the first is that of the file which it is asked for.
FAILED_CTEST = """
while [ "$1" != --output-junit ]; do shift; done
cat > "$2" <<END
<testsuite><testcase name="one_test" status="run"/>
<testcase name="faults_test.3" status="fail"><failure message=""/><system-out>of all</system-out></testcase>
<testcase name="ops_test" status="fail"><failure message="Timeout"/><system-out>aborts</system-out></testcase>
</testsuite>
END
cat > "${2%/*}/faults_test.3.xml" <<END
<testsuites><testcase name="Fits" classname="Ab" time="1"/>
<testcase name="Ends" classname="Ab" time="1"><failure message="ab_test.cpp:7&#10;Expected: 3"/></testcase>
</testsuites>
END
exit 8
"""
FAILED_PYTEST = """
while [ "$1" != --junitxml ]; do shift; done
cat > "$2" <<END
<testsuites><testcase classname="tests.python.test_tensors" name="test_one[0]" time="1"/>
<testcase classname="tests.python.test_tensors" name="test_two[a-b]" time="1"><failure>def test_two():
&gt;       assert 1 == 2
E       assert 1 == 2
tests/python/test_tensors.py:9: AssertionError</failure></testcase></testsuites>
END
exit 1
"""


def test_prints_last_what_failed(tmp_path: Path) -> None:
    programs = {
        "bin/ctest": FAILED_CTEST,
        "tools/bin/pytest": FAILED_PYTEST,
        "tools/bin/ruff": "echo a line is too long; exit 1",
        "tools/bin/python": f'exec {sys.executable} "$@"',
    }
    done = run_with(tmp_path, "exit 9", programs)
    assert done.returncode == 1
    assert done.stdout.split("== What failed")[1].splitlines() == [
        " (4)",
        "tests/python/test_tensors.py::test_two[a-b]",
        "    E       assert 1 == 2",
        "faults_test.3: Ab.Ends",
        "    ab_test.cpp:7",
        "    Expected: 3",
        "ops_test",
        "    Timeout",
        "    aborts",
        "ruff",
        "    a line is too long",
    ]
    assert done.stderr.endswith("error: failed: pytest ctest dev ruff\n")


def test_a_failure_without_results_of_tests_shows_the_end_of_its_log(tmp_path: Path) -> None:
    programs = {"tools/bin/pytest": "echo no such option; exit 4"}
    programs["tools/bin/python"] = f'exec {sys.executable} "$@"'
    done = run_with(tmp_path, "exit 9", programs)
    last = done.stdout.split("== What failed")[1].splitlines()
    assert last == [" (1)", "pytest", "    no such option"]


def test_what_failed_fits_into_the_lines_that_are_kept() -> None:
    failures = [Failure(f"test {number}", [f"line {line}" for line in range(99)]) for number in range(100)]
    assert len(shown(failures[:1])) == 13
    assert len(shown(failures[:10])) == MAX_LINES
    many = shown(failures)
    assert len(many) == MAX_LINES
    assert many[:2] == ["test 0", "test 1"]
    assert many[-1] == "and 41 more"
    assert shown(failures[:MAX_LINES]) == [failure.name for failure in failures[:MAX_LINES]]
