"""The summary of scripts/lab/coverage, on a program of a few lines."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from coverage_summary import executed_lines, folder_of, summary

pytestmark = pytest.mark.skipif(
    not (shutil.which("g++") and shutil.which("gcov")), reason="g++ or gcov is not installed"
)
HEADER = """inline int twice(int x) {
  return 2 * x;
}
"""
FIRST = """#include "shared.hpp"
int first(int x) {
  if (x > 100)
    return twice(x);
  return x;
}
"""
SECOND = """#include "shared.hpp"
int first(int x);
int main() {
  return first(twice(3)) - 6;
}
"""
NEVER = """int never(int x) {
  return x;
}
"""


def test_lines_are_merged_over_object_files_and_summed_by_folder(tmp_path: Path) -> None:
    files = {"harness/core/shared.hpp": HEADER, "harness/core/first.cpp": FIRST,
             "harness/conductor/run/main.cpp": SECOND, "workloads/never.cpp": NEVER,
             "tests/other.cpp": NEVER.replace("never", "other")}  # fmt: skip
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    build = tmp_path / "build"
    build.mkdir()
    sources = [str(tmp_path / path) for path in files if path.endswith(".cpp")]
    options = ["-O0", "--coverage", f"-I{tmp_path}/harness/core"]
    subprocess.run(["g++", *options, "-c", *sources], cwd=build, check=True)
    linked = [str(file) for file in build.glob("*.o") if file.stem != "never"]
    subprocess.run(["g++", "--coverage", "-o", "program", *linked], cwd=build, check=True)
    subprocess.run([str(build / "program")], cwd=build, check=True)

    lines = executed_lines(build, tmp_path)
    assert lines[Path("harness/core/shared.hpp")] == {1: True, 2: True}
    assert lines[Path("harness/core/first.cpp")] == {2: True, 3: True, 4: False, 5: True}
    assert lines[Path("workloads/never.cpp")] == {1: False, 2: False}
    assert Path("tests/other.cpp") not in lines
    assert [" ".join(line.split()) for line in summary(lines)] == [
        "harness/conductor/run 100.0 % 2 of 2 lines",
        "harness/core 83.3 % 5 of 6 lines",
        "workloads 0.0 % 0 of 2 lines",
        "all 70.0 % 7 of 10 lines",
    ]


def test_a_library_is_one_line_of_the_summary() -> None:
    assert folder_of(Path("harness/core/io/npy.cpp")) == "harness/core"
    assert folder_of(Path("harness/conductor/cli/commands/ab.cpp")) == "harness/conductor/cli"
    assert folder_of(Path("workloads/lstm.cpp")) == "workloads"


def test_counts_that_were_not_run_yet_are_no_error(tmp_path: Path) -> None:
    assert summary(executed_lines(tmp_path, tmp_path)) == []
