"""How several ranks find each other over sockets."""

from __future__ import annotations

import socket
import time


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
