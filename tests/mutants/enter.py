"""The command of a backend whose worker is a child of a preloaded process: see preload.py.

    enter.py SOCKET WORKER [ARGUMENT...] CELL_FOLDER

It is started for each cell, so it imports little.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

# Standard input, output and error, and the protocol's commands and events.
PASSED = 5


def enter(path: str, *arguments: str) -> int:
    """Let a child of the server be the worker of a cell; return its exit code, or die of its signal."""
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "processors": sorted(os.sched_getaffinity(0)),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.connect(path)
        socket.send_fds(server, [json.dumps(request).encode()], list(range(PASSED)))
        # Only the child may hold the log and the pipes open: the conductor waits for their end.
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(PASSED):
            os.dup2(null, descriptor)
        answer = server.recv(64)
    if not answer:
        return 1  # the server has ended
    status = int(answer)
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(enter(*sys.argv[1:]))
