#!/usr/bin/env python3
"""Two network namespaces joined by a pair of virtual interfaces: they stand in for two machines.

One is that of this process and its children. The other one is held by a process that runs this file: it ends
when its standard input does, so with this process. The kernel removes a namespace and its interfaces with its
last process. Nothing outside of the two is changed, so nothing is left, however this process ends.

Each has a host name of its own, which is its address: libraries such as gloo listen at the address of the
host name.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

ADDRESSES = ("10.77.0.1", "10.77.0.2")
NETWORK = "10.77.0.0/30"
INTERFACE = "assay0"
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}

NEW_HOST_NAME, NEW_USER, NEW_NETWORK = 0x04000000, 0x10000000, 0x40000000  # CLONE_NEW*: unshare(2)
# The token bucket lets this pass at once: long enough for a timer that is late, and short next to a message.
BURST_SECONDS = 150e-6
MIN_BURST = 4000  # bytes: two packets
MAX_PACKET = 8000  # bytes that the kernel hands over at once
MAX_QUEUE_SECONDS = 0.1


class NamespaceError(Exception):
    """The namespaces cannot be made here, for people: why, and what to do."""


class TwoMachines:
    """The namespaces while a `with` statement runs. This process enters the first one and never leaves it.

    It must have no threads. As a user who is not root it becomes root of a user namespace.
    """

    def __enter__(self) -> TwoMachines:
        self._limited = False
        enter_namespaces()
        socket.sethostname(ADDRESSES[0])
        self._other = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C does not end it before what runs in its namespace
        )
        try:
            self._connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the other namespace's process."""
        assert self._other.stdin and self._other.stdout
        self._other.stdin.close()
        self._other.stdout.close()
        self._other.wait()

    def in_other(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs this one in the other namespace."""
        return [tool("nsenter"), "--target", str(self._other.pid), "--net", "--uts", *command]

    def write_agent(self, file: Path) -> None:
        """Write the program by which mpirun starts its part on the other machine, in place of ssh."""
        inside = " ".join(self.in_other(["sh", "-c"]))
        file.write_text(f'#!/bin/sh\n# HOST COMMAND\nshift\nexec {inside} "$*"\n')
        file.chmod(0o755)

    def limit(self, bits_per_second: float | None) -> None:
        """Limit both directions to this rate; None: no limit."""
        change = ["qdisc", "del", "dev", INTERFACE, "root"]
        if bits_per_second is not None:
            burst = max(MIN_BURST, bits_per_second / 8 * BURST_SECONDS)
            change = ["qdisc", "replace", "dev", INTERFACE, "root", "tbf"]
            change += ["rate", f"{bits_per_second:.0f}bit", "burst", f"{burst:.0f}b"]
            change += ["latency", f"{1e3 * MAX_QUEUE_SECONDS:g}ms"]
        elif not self._limited:
            return
        self._limited = bits_per_second is not None
        run([tool("tc"), *change])
        run(self.in_other([tool("tc"), *change]))

    def _connect(self) -> None:
        assert self._other.stdout
        if self._other.stdout.readline() != "ready\n":
            raise NamespaceError("the second network namespace cannot be made; the reason is above")
        ip = tool("ip")
        peer = ["type", "veth", "peer", "name", INTERFACE, "netns", str(self._other.pid)]
        run([ip, "link", "add", INTERFACE, *peer])
        for address, ip_there in ((ADDRESSES[0], [ip]), (ADDRESSES[1], self.in_other([ip]))):
            run([*ip_there, "address", "add", f"{address}/30", "dev", INTERFACE])
            run([*ip_there, "link", "set", "dev", INTERFACE, "gso_max_size", str(MAX_PACKET), "up"])
            run([*ip_there, "link", "set", "dev", "lo", "up"])


def tool(name: str) -> str:
    """Return the path of a program. Raises NamespaceError if it is missing."""
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if found is None:
        raise NamespaceError(f"{name} is missing: install the package {TOOLS[name]}")
    return found


def run(command: Sequence[str]) -> None:
    """Run a program that prints nothing. Raises NamespaceError with what it printed if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NamespaceError(f"`{' '.join(command)}` failed: {(done.stderr or done.stdout).strip()}")


def enter_namespaces() -> None:
    """Give this process a network and a host name of its own. Raises NamespaceError."""
    uid, gid = os.geteuid(), os.getegid()
    if unshared(NEW_NETWORK | NEW_HOST_NAME):
        return
    if not unshared(NEW_USER | NEW_NETWORK | NEW_HOST_NAME):
        raise NamespaceError(
            f"no network namespaces: {os.strerror(ctypes.get_errno())}; run it as root, or as a user who may "
            "have them: `unshare -Urn true` works"
        )
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def unshared(flags: int) -> bool:
    """Call unshare(2), which sets errno if it returns False."""
    library = ctypes.CDLL(None, use_errno=True)
    return bool(library.unshare(flags) == 0)


def main() -> int:
    """Hold the second namespace until standard input ends."""
    if not unshared(NEW_NETWORK | NEW_HOST_NAME):
        print(f"unshare: {os.strerror(ctypes.get_errno())}", file=sys.stderr)
        return 1
    socket.sethostname(ADDRESSES[1])
    print("ready", flush=True)
    sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
