"""How several ranks find each other over sockets."""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import time
from collections.abc import Iterator

GET_ADDRESS = 0x8915  # SIOCGIFADDR: netdevice(7)


def connected(place: tuple[str, int], seconds: float) -> socket.socket:
    """Return a connection to rank 0, which listens at the address and port, or will within the seconds.

    Raises OSError.
    """
    until = time.monotonic() + seconds
    while True:
        try:
            return socket.create_connection(place)
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def own_address(place: tuple[str, int]) -> str:
    """Return the IPv4 address of this process on the way to rank 0. Nothing is sent.

    Raises OSError if there is no way.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.connect(place)
        return str(asked.getsockname()[0])


@contextlib.contextmanager
def kept_port(address: str) -> Iterator[str]:
    """Keep a free port at the address from all who ask for any port; its value is "10.0.0.1:29400".

    A server that asks for this one gets it if it sets SO_REUSEADDR, as servers do.
    """
    with socket.socket() as kept:
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        kept.bind((address, 0))
        yield f"{address}:{kept.getsockname()[1]}"


def interface_of(address: str) -> str:
    """Return the name of the network interface whose first IPv4 address this is; empty if none has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(asked, GET_ADDRESS, struct.pack("40s", name.encode()))
            except OSError:  # it has no IPv4 address
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""
