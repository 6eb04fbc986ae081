"""A worker's allocator behaves as in a program that has freed a large array."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from worker_under_test import ROOT

FAULTS = """
import resource, sys
import numpy as np
sys.path.insert(0, {package!r})
from assay_worker.serve import adapt_allocator
if {adapted}:
    adapt_allocator()
def step():
    [np.ones(2 << 20, np.uint8) for _ in range(16)]
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(adapted: bool) -> int:
    script = FAULTS.format(package=str(ROOT / "backends/python"), adapted=adapted)
    environment = {"PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_memory_of_a_step_stays_in_the_process() -> None:
    # By itself glibc keeps twice the largest block that was freed: 4 MiB of the 32 that each step frees.
    assert 4 * faults(adapted=True) < faults(adapted=False)
