"""The scheduler or a server of MXNet's kvstore, as DMLC_ROLE says: a process of the rank that started it.

DMLC_ROLE=server python mxnet_server.py PROCESS_OF_THE_RANK
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

from worker import restore_aliases

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def end_with(parent: int) -> None:
    """Have the kernel kill this process when the parent ends, however that ends."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "[ranks] prctl")
    if os.getppid() != parent:  # it ended before
        sys.exit(1)


if __name__ == "__main__":
    end_with(int(sys.argv[1]))
    restore_aliases()
    import mxnet  # noqa: F401 - serves until all ranks have left, and exits
