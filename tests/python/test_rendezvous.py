"""How ranks find their own addresses."""

from __future__ import annotations

import contextlib
import socket

import pytest
from assay_worker.rendezvous import interface_of, kept_port, own_address


@pytest.mark.parametrize("rendezvous", ["127.0.0.1", "127.0.0.2"])
def test_a_rank_goes_to_loopback_from_loopback(rendezvous: str) -> None:
    assert own_address((rendezvous, 29400)) == "127.0.0.1"


def test_an_interface_is_found_by_its_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("198.51.100.7") == "", "an address for documentation"


def test_a_kept_port_is_given_to_nobody_else_but_is_free_for_its_server() -> None:
    with kept_port("127.0.0.1") as place, contextlib.ExitStack() as stack:
        others = [stack.enter_context(kept_port("127.0.0.1")) for _ in range(500)]
        assert len({place, *others}) == 501
        address, _, port = place.rpartition(":")
        with socket.create_server((address, int(port))) as server:
            assert server.getsockname()[1] == int(port)
