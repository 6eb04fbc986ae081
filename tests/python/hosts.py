#!/usr/bin/env python3
"""Runs a command on the first of several stand-ins for machines, which a switch joins.

    hosts.py COUNT MBIT FOLDER [--private PATH]... [--apart] COMMAND...

A host is a set of namespaces: it has a network, a name and mounts of its own, and the others than the first
one also have processes of their own, and a monotonic clock that is days ahead. They are called node1,
node2, ..., know each other by these names, and send at most MBIT megabits a second each way. COMMAND has
the first host. A process that runs this file holds each other one, and one the switch: they end when their
standard input does, so with COMMAND. The kernel removes a namespace with its last process, and with the
first process of a namespace all others in it. Nothing outside is changed, so nothing is left, however
COMMAND ends. Each --private folder is empty on every host but the first; PATH=SIZE has room for only so
much. With --apart, each host has processors of its own, as far as there are enough.

FOLDER gets three programs: `on HOST COMMAND...`; `agent HOST COMMAND`, which mpirun can use in place of
ssh; and `on-each COMMAND...`, which runs a command on all hosts at once. It needs root, or a user who may
have user namespaces and becomes root of one.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

NETWORK = "10.77.0.0/24"
INTERFACE = "assay0"

# CLONE_NEW*: unshare(2)
NEW_CLOCK, NEW_MOUNTS, NEW_NAME, NEW_USER, NEW_PROCESSES, NEW_NETWORK = (
    0x00000080,
    0x00020000,
    0x04000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
PRIVATE_RECURSIVE, BIND = 0x44000, 0x1000  # MS_REC | MS_PRIVATE, MS_BIND: mount(2)
# The token bucket lets this pass at once: long enough for a timer that is late, and short next to a message.
BURST_SECONDS = 150e-6
MIN_BURST = 4000  # bytes: two packets
DAY = 86_400  # seconds
MAX_PACKET = 8000  # bytes that the kernel hands over at once

LIBC = ctypes.CDLL(None, use_errno=True)


def name_of(number: int) -> str:
    return f"node{number + 1}"


def address_of(number: int) -> str:
    return f"10.77.0.{number + 1}"


def mpirun_arguments(folder: Path, slots: list[int]) -> str:
    """Return what makes Open MPI start so many ranks on each host, and use only the network between them."""
    hosts = ",".join(f"{name_of(number)}:{count}" for number, count in enumerate(slots) if count)
    network = f"--mca oob_tcp_if_include {NETWORK} --mca btl self,tcp --mca btl_tcp_if_include {NETWORK}"
    return f"--host {hosts} --leave-session-attached --mca plm_rsh_agent {folder}/agent {network}"


def unshare(flags: int) -> bool:
    """Call unshare(2), which sets errno if it returns False."""
    return bool(LIBC.unshare(flags) == 0)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    if LIBC.mount(source.encode(), target.encode(), kind.encode(), flags, data.encode()) != 0:
        sys.exit(f"mount {kind} at {target}: {os.strerror(ctypes.get_errno())}")


def become_host(number: int, folder: Path) -> None:
    """Give this process, which has namespaces of its own, the name of a host and the names of all."""
    mount("none", "/", "", PRIVATE_RECURSIVE)
    mount(str(folder / "hosts"), "/etc/hosts", "", BIND)
    socket.sethostname(name_of(number))


def enter_namespaces() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if unshare(NEW_NETWORK | NEW_NAME | NEW_MOUNTS):
        return
    if not unshare(NEW_USER | NEW_NETWORK | NEW_NAME | NEW_MOUNTS):
        sys.exit(f"no namespaces here: {os.strerror(ctypes.get_errno())}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
    Path("/proc/self/gid_map").write_text(f"0 {gid} 1")


def start_holder(*arguments: str) -> int:
    """Start a holder of namespaces; return the process in them."""
    holder = subprocess.Popen(
        [sys.executable, __file__, "--hold", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C does not end it before COMMAND
    )
    assert holder.stdin and holder.stdout
    os.set_inheritable(holder.stdin.fileno(), True)  # COMMAND keeps it
    answer = holder.stdout.readline().split()
    if answer[:1] != ["ready"]:
        sys.exit("a host cannot be made; the reason is above")
    return int(answer[1])


def hold(kind: str, number: int, folder: Path, private: list[str]) -> None:
    """Hold the namespaces of a host, or of the switch, until standard input ends."""
    if kind == "switch":
        if not unshare(NEW_NETWORK):
            sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
        subprocess.run(["ip", "link", "add", "switch", "type", "bridge"], check=True)
        subprocess.run(["ip", "link", "set", "dev", "switch", "up"], check=True)
        print("ready", os.getpid(), flush=True)
        sys.stdin.read()
        return
    if not unshare(NEW_NETWORK | NEW_NAME | NEW_MOUNTS | NEW_PROCESSES):
        sys.exit(f"unshare: {os.strerror(ctypes.get_errno())}")
    if unshare(NEW_CLOCK):  # of the processes that this one starts
        Path("/proc/self/timens_offsets").write_text(f"monotonic {number * DAY} 0")
    first = os.fork()
    if first == 0:
        become_first_process(number, folder, private)
    print("ready", first, flush=True)
    sys.stdin.read()
    os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)


def become_first_process(number: int, folder: Path, private: list[str]) -> None:
    """Be the first process of a host: reap what others leave behind, until it is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    os.close(0)
    os.close(1)
    become_host(number, folder)
    mount("proc", "/proc", "proc")
    for path, _, size in (given.partition("=") for given in private):
        mount("tmpfs", path, "tmpfs", data=f"size={size}" if size else "")
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.1)


def plug_in(host: int, switch: int, number: int, mbit: float) -> None:
    """Join a host, by a process in it, to the switch."""

    def run(where: int, command: str) -> None:
        subprocess.run(["nsenter", "--target", str(where), "--net", *command.split()], check=True)

    port = f"port{number + 1}"
    burst = max(MIN_BURST, 1e6 * mbit / 8 * BURST_SECONDS)
    limit = f"root tbf rate {mbit}mbit burst {burst:.0f}b latency 100ms"
    run(host, f"ip link add {INTERFACE} type veth peer name {port} netns {switch}")
    run(host, f"ip address add {address_of(number)}/24 dev {INTERFACE}")
    run(host, f"ip link set dev {INTERFACE} gso_max_size {MAX_PACKET} up")
    run(host, "ip link set dev lo up")
    run(host, f"tc qdisc add dev {INTERFACE} {limit}")
    run(switch, f"ip link set dev {port} gso_max_size {MAX_PACKET} master switch up")
    run(switch, f"tc qdisc add dev {port} {limit}")


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}")
    path.chmod(0o755)


def processors_of(number: int, count: int) -> list[int]:
    """Return a host's share of the processors that this process may use."""
    all_of_them = sorted(os.sched_getaffinity(0))
    return all_of_them[number::count] or [all_of_them[number % len(all_of_them)]]


def write_programs(folder: Path, processes: list[int], processors: list[list[int]]) -> None:
    """Write `on`, `agent` and `on-each`."""
    enter = "exec taskset --cpu-list {} nsenter --target {} --net --uts --mount --pid --time"
    cases = [f'{name_of(0)}|{address_of(0)}) exec "$@" ;;']
    for number, process in enumerate(processes[1:], start=1):
        command = enter.format(",".join(map(str, processors[number])), process)
        cases.append(f'{name_of(number)}|{address_of(number)}) {command} "$@" ;;')
    chosen = "\n".join(cases)
    write_program(
        folder / "on", f'host=$1\nshift\ncase $host in\n{chosen}\nesac\necho "no host $host" >&2\nexit 1\n'
    )
    on = shlex.quote(str(folder / "on"))
    write_program(folder / "agent", f'host=$1\nshift\nexec {on} "$host" sh -c "$*"\n')
    each = "\n".join(f'{on} {name_of(number)} "$@" &' for number in range(len(processes)))
    write_program(folder / "on-each", f"{each}\nwait\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", nargs=3)
    parser.add_argument("--private", action="append", default=[])
    parser.add_argument("--apart", action="store_true")
    parser.add_argument("words", nargs=argparse.REMAINDER)
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # of ip and tc
    if sys.argv[1:2] == ["--hold"]:
        given = parser.parse_args()
        kind, number, folder = given.hold
        return hold(kind, int(number), Path(folder), given.private)
    count, mbit, folder = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    given = parser.parse_args(sys.argv[4:])
    folder.mkdir(exist_ok=True)
    names = [f"{address_of(number)} {name_of(number)}" for number in range(count)]
    (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
    enter_namespaces()
    become_host(0, folder)
    switch = start_holder("switch", "0", str(folder))
    private = [word for path in given.private for word in ("--private", path)]
    processes = [os.getpid()]
    processes += [start_holder("host", str(number), str(folder), *private) for number in range(1, count)]
    for number, process in enumerate(processes):
        plug_in(process, switch, number, mbit)
    together = sorted(os.sched_getaffinity(0))
    processors = [processors_of(n, count) if given.apart else together for n in range(count)]
    write_programs(folder, processes, processors)
    os.sched_setaffinity(0, processors[0])
    os.execvp(given.words[0], given.words)


if __name__ == "__main__":
    main()
