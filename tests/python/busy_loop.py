"""Other work on a machine: a process that takes a share of one processor."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

PERIOD = 0.02  # seconds; longer than a tick of the kernel, shorter than a step of most networks

LOOP = """
import os, sys, time
processor, share, period, parent = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
os.sched_setaffinity(0, {processor})
while os.getppid() == parent:
    end = time.monotonic() + share * period
    while time.monotonic() < end:
        pass
    if share < 1:
        time.sleep((1 - share) * period)
"""


@contextlib.contextmanager
def busy_loop(share: float, processor: int | None = None) -> Iterator[None]:
    """Take that share of a processor (default: the first that may be used) until the end of the block."""
    where = min(os.sched_getaffinity(0)) if processor is None else processor
    arguments = [str(where), str(share), str(PERIOD), str(os.getpid())]
    loop = subprocess.Popen([sys.executable, "-c", LOOP, *arguments])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()
