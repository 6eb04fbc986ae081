#!/usr/bin/env python3
"""Runs a command in one of two joined network namespaces, which stand in for two machines.

    network_namespaces.py MBIT AGENT COMMAND...

COMMAND has the first namespace. A process that runs this file holds the second one: it ends when its standard
input does, so with COMMAND. The kernel removes a namespace and its interfaces with its last process. Nothing
outside of the two is changed, so nothing is left, however COMMAND ends.

MBIT limits both directions. AGENT is a program that mpirun can use in place of ssh; this writes it.
Each namespace has a host name of its own, which is its address: libraries such as gloo listen at the address
of the host name. It needs root, or a user who may have user namespaces and becomes root of one.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ADDRESSES = ("10.77.0.1", "10.77.0.2")
NETWORK = "10.77.0.0/30"
INTERFACE = "assay0"

NEW_HOST_NAME, NEW_USER, NEW_NETWORK = 0x04000000, 0x10000000, 0x40000000  # CLONE_NEW*: unshare(2)
# The token bucket lets this pass at once: long enough for a timer that is late, and short next to a message.
BURST_SECONDS = 150e-6
MIN_BURST = 4000  # bytes: two packets
MAX_PACKET = 8000  # bytes that the kernel hands over at once


def launcher_arguments(agent: Path) -> str:
    """Return what makes Open MPI start a rank on each of the two, and use only the network between them."""
    hosts = ",".join(f"{address}:1" for address in ADDRESSES)
    network = f"--mca oob_tcp_if_include {NETWORK} --mca btl self,tcp --mca btl_tcp_if_include {NETWORK}"
    return f"--host {hosts} --leave-session-attached --mca plm_rsh_agent {agent} {network}"


def unshare(flags: int) -> bool:
    """Call unshare(2), which sets errno if it returns False."""
    return bool(ctypes.CDLL(None, use_errno=True).unshare(flags) == 0)


def enter_namespaces() -> None:
    """Give this process a network and a host name of its own."""
    uid, gid = os.geteuid(), os.getegid()
    if unshare(NEW_NETWORK | NEW_HOST_NAME):
        return
    if not unshare(NEW_USER | NEW_NETWORK | NEW_HOST_NAME):
        sys.exit(f"no network namespaces here: {os.strerror(ctypes.get_errno())}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def start_other() -> list[str]:
    """Start the holder of the second namespace; return the words that run a command there."""
    other = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C does not end it before COMMAND
    )
    assert other.stdin and other.stdout
    os.set_inheritable(other.stdin.fileno(), True)  # COMMAND keeps it
    if other.stdout.readline() != "ready\n":
        sys.exit("the second network namespace cannot be made; the reason is above")
    return ["nsenter", "--target", str(other.pid), "--net", "--uts"]


def connect(in_other: Sequence[str], mbit: float) -> None:
    def run(command: str) -> None:
        subprocess.run(command.split(), check=True)

    run(f"ip link add {INTERFACE} type veth peer name {INTERFACE} netns {in_other[2]}")
    burst = max(MIN_BURST, 1e6 * mbit / 8 * BURST_SECONDS)
    for address, where in ((ADDRESSES[0], ""), (ADDRESSES[1], " ".join(in_other))):
        run(f"{where} ip address add {address}/30 dev {INTERFACE}")
        run(f"{where} ip link set dev {INTERFACE} gso_max_size {MAX_PACKET} up")
        run(f"{where} ip link set dev lo up")
        run(f"{where} tc qdisc add dev {INTERFACE} root tbf rate {mbit}mbit burst {burst:.0f}b latency 100ms")


def hold() -> None:
    """Hold the second namespace until standard input ends."""
    if not unshare(NEW_NETWORK | NEW_HOST_NAME):
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    socket.sethostname(ADDRESSES[1])
    print("ready", flush=True)
    sys.stdin.read()


def main() -> None:
    if len(sys.argv) == 1:
        return hold()
    mbit, agent, command = float(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # of ip and tc
    enter_namespaces()
    socket.sethostname(ADDRESSES[0])
    in_other = start_other()
    connect(in_other, mbit)
    agent.write_text(f'#!/bin/sh\n# HOST COMMAND\nshift\nexec {" ".join(in_other)} sh -c "$*"\n')
    agent.chmod(0o755)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
