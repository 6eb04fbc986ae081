"""How ranks find their own addresses."""

from __future__ import annotations

import pytest
from assay_worker.rendezvous import interface_of, own_address


@pytest.mark.parametrize("rendezvous", ["127.0.0.1", "127.0.0.2"])
def test_a_rank_goes_to_loopback_from_loopback(rendezvous: str) -> None:
    assert own_address((rendezvous, 29400)) == "127.0.0.1"


def test_an_interface_is_found_by_its_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("198.51.100.7") == "", "an address for documentation"
