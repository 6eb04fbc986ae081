"""scripts/gpu-estimate: what a step of backend cuda cannot be faster than."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ASSAY_BUILD", ROOT / "build/dev"))

pytestmark = pytest.mark.skipif(
    not (BUILD / "assay-estimate-cuda").exists(), reason="the host's version of backend cuda was not built"
)


def estimate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/gpu-estimate"), "--build", str(BUILD), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def row(*arguments: str) -> list[str]:
    answer = estimate(*arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()[1].split()


def test_counts_the_launches_of_a_step() -> None:
    network, precision, batch, launches, calls, *_ = row("lenet5:fp32")
    assert (network, precision, batch) == ("lenet5", "fp32", "200")
    assert int(launches) > 0
    assert int(calls) == 14  # 5 convolutions and 9 products


def test_takes_the_longer_of_arithmetic_and_memory() -> None:
    slow = row("lenet5:fp32", "--flops", "1e9", "--bytes", "1e15")
    gflop, microseconds = float(slow[5]), float(slow[7])
    assert microseconds == pytest.approx(1e6 * gflop, rel=0.02)
    slow = row("lenet5:fp32", "--flops", "1e18", "--bytes", "1e9")
    megabytes, microseconds = float(slow[6]), float(slow[7])
    assert microseconds == pytest.approx(1e3 * megabytes, rel=0.02)


def test_takes_a_batch() -> None:
    assert float(row("lenet5:fp32:400")[5]) == pytest.approx(2 * float(row("lenet5:fp32")[5]), rel=0.05)


@pytest.mark.parametrize("wrong", ["lenet5", "lenet5:fp64", "lenet5:fp32:x", "lenet5:fp32:1:2"])
def test_refuses_another_form(wrong: str) -> None:
    answer = estimate(wrong)
    assert answer.returncode == 2
    assert "NETWORK:PRECISION[:BATCH]" in answer.stderr


def test_names_a_network_that_is_nearly_so_called() -> None:
    answer = estimate("lenet6:fp32")
    assert answer.returncode == 1
    assert "lenet6" in answer.stderr
    assert "lenet5" in answer.stderr
