"""A short run of scripts/lab/fuzz, and its command line.

The short run builds every target with clang first, which takes long: it runs only if ASSAY_FUZZ is set.
fuzz_test gives the corpora to the same targets in every run of the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGETS = {file.stem for file in (ROOT / "tests/fuzz/targets").glob("*.cpp")}
PROBE = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'


def missing(folder: Path) -> str:
    """Return why the fuzzers cannot run; empty if they can."""
    if not os.environ.get("ASSAY_FUZZ"):
        return "the build of the fuzz targets takes long: it runs if ASSAY_FUZZ is set"
    if not shutil.which("clang++"):
        return "clang++ is not there: scripts/setup --checks"
    source = folder / "probe.cpp"
    source.write_text(PROBE)
    command = ["clang++", "-fsanitize=fuzzer,address", str(source), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return "clang++ has no libFuzzer: scripts/setup --checks"
    return ""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts/lab/fuzz", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)


def test_no_reader_fails_on_what_a_fuzzer_makes_of_its_files(tmp_path: Path) -> None:
    if reason := missing(tmp_path):
        pytest.skip(reason)
    inputs = 40_000
    done = run("--inputs", str(inputs))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "No reader failed" in done.stdout
    rows = [line.split() for line in done.stdout.splitlines()]
    counted = {row[0]: int(row[1]) for row in rows if len(row) == 5 and row[1].isdigit()}
    assert counted.pop("total") >= inputs
    assert set(counted) == TARGETS


@pytest.mark.parametrize(
    "arguments",
    [["0"], ["ten"], ["--inputs"], ["--inputs", "0"], ["--jobs", "x", "1"], ["--no-such-option", "1"]],
)
def test_a_value_that_is_not_a_number_is_refused(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


def test_each_target_has_a_corpus() -> None:
    assert {folder.name for folder in (ROOT / "tests/fuzz/corpus").iterdir()} == TARGETS


def test_the_corpus_is_small() -> None:
    sizes = [file.stat().st_size for file in (ROOT / "tests/fuzz/corpus").rglob("*") if file.is_file()]
    assert sizes
    assert sum(sizes) < 100_000
