"""Each reader of foreign files runs under libFuzzer for a moment; scripts/fuzz runs as long as requested."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROBE = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }'


def missing(folder: Path) -> str:
    """Return why fuzzing is not possible here; empty if it is."""
    if not shutil.which("clang++"):
        return "clang++ is not there: scripts/setup --checks"
    source = folder / "probe.cpp"
    source.write_text(PROBE)
    command = ["clang++", "-fsanitize=fuzzer,address", str(source), "-o", str(folder / "probe")]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return "clang++ has no libFuzzer: scripts/setup --checks"
    return ""


def test_no_reader_fails_on_what_a_fuzzer_makes_of_its_files(tmp_path: Path) -> None:
    if reason := missing(tmp_path):
        pytest.skip(reason)
    done = subprocess.run(
        [ROOT / "scripts/fuzz", "2"], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "No reader failed" in done.stdout


def test_the_corpus_is_small() -> None:
    sizes = [file.stat().st_size for file in (ROOT / "tests/fuzz/corpus").rglob("*") if file.is_file()]
    assert sizes
    assert sum(sizes) < 100_000
