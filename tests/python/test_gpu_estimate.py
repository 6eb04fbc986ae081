"""scripts/lab/gpu-estimate: what a step of backend cuda cannot be faster than."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from framework import ENVIRONMENTS

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ASSAY_BUILD", ROOT / "build/dev"))

WITHOUT_PYTORCH = ("--python", "/no/python")
TORCH = ENVIRONMENTS / "torch/bin/python"

pytestmark = pytest.mark.skipif(
    not (BUILD / "assay-estimate-cuda").exists(), reason="the host's version of backend cuda was not built"
)


def estimate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/lab/gpu-estimate"), "--build", str(BUILD), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def row(*arguments: str) -> list[str]:
    answer = estimate(*arguments)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()[1].split()


def test_counts_the_launches_of_a_step() -> None:
    network, precision, batch, launches, calls, *_ = row("lenet5:fp32", *WITHOUT_PYTORCH)
    assert (network, precision, batch) == ("lenet5", "fp32", "200")
    assert int(launches) > 0
    assert int(calls) == 14  # 5 convolutions and 9 products


def test_takes_the_longer_of_arithmetic_and_memory() -> None:
    slow = row("lenet5:fp32", "--flops", "1e9", "--bytes", "1e15", *WITHOUT_PYTORCH)
    gflop, microseconds = float(slow[6]), float(slow[8])
    assert microseconds == pytest.approx(1e6 * gflop, rel=0.02)
    slow = row("lenet5:fp32", "--flops", "1e18", "--bytes", "1e9", *WITHOUT_PYTORCH)
    megabytes, microseconds = float(slow[7]), float(slow[8])
    assert microseconds == pytest.approx(1e3 * megabytes, rel=0.02)


def test_takes_a_batch() -> None:
    twice, once = (float(row(cell, *WITHOUT_PYTORCH)[6]) for cell in ("lenet5:fp32:400", "lenet5:fp32"))
    assert twice == pytest.approx(2 * once, rel=0.05)


def test_a_chain_is_shorter_than_all_kernels_in_order() -> None:
    launches, in_order, chain = (float(number) for number in row("resnet56:bf16", *WITHOUT_PYTORCH)[9:])
    assert chain < 0.95 * in_order
    assert chain > 0.5 * launches


def test_takes_measured_kernels(tmp_path: Path) -> None:
    # It is the last kernel but the optimizer, and on the longest chain.
    name = "convolution_weight_gradient/lenet5/200/conv1.weight_gradient"
    file = tmp_path / "kernels.csv"
    file.write_text(f'a note\nname,iterations,real_time\n"{name}/real_time",16,5000.0\n')
    before, after = (
        [float(number) for number in row("lenet5:fp32", *given, *WITHOUT_PYTORCH)[10:]]
        for given in ((), ("--kernels", str(file)))
    )
    for without, measured in zip(before, after, strict=True):
        assert measured == pytest.approx(without + 5000, abs=20)


def test_leaves_out_the_operations_of_pytorch_where_it_is_missing() -> None:
    assert row("lenet5:fp32", *WITHOUT_PYTORCH)[5] == "-"


@pytest.mark.skipif(not TORCH.exists(), reason="PyTorch is not set up")
def test_counts_the_operations_of_pytorch() -> None:
    fp32, bf16 = (int(row(cell)[5]) for cell in ("lenet5:fp32", "lenet5:bf16"))
    # 5 layers forward and backward, their activations and pools, the loss and the optimizer.
    assert 30 < fp32 < 80
    assert bf16 > fp32, "the casts of autocast"


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
