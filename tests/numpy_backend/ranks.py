"""Ranks of plain numpy: rank 0 collects arrays, averages them and sends the mean back, over sockets."""

from __future__ import annotations

import socket

import numpy as np
from assay_worker.rendezvous import connected

CONNECT_SECONDS = 60.0


class Ranks:
    """The other workers that train the same model. Every rank must make the same calls in the same order."""

    def __init__(self, rank: int, world: int, place: tuple[str, int]) -> None:
        self._rank, self._world = rank, world
        self._peers = _accepted(place, world) if rank == 0 else [_connected(place, rank)]

    def mean(self, array: np.ndarray) -> np.ndarray:
        """Return the mean over the ranks, with the same bits on each."""
        if self._rank > 0:
            _send(self._peers[0], array)
            return _received(self._peers[0], array)
        total = array.copy()
        for peer in self._peers:
            total += _received(peer, array)
        total /= np.float32(self._world)
        for peer in self._peers:
            _send(peer, total)
        return total

    def agree(self, value: int) -> int:
        """Return rank 0's value, once all ranks have called this."""
        held = np.array(value, np.int64)
        if self._rank > 0:
            _send(self._peers[0], held)
            return int(_received(self._peers[0], held))
        for peer in self._peers:
            _received(peer, held)
        for peer in self._peers:
            _send(peer, held)
        return value


def _accepted(place: tuple[str, int], world: int) -> list[socket.socket]:
    """The connections of the ranks 1, 2, ..., which say first who they are."""
    peers: dict[int, socket.socket] = {}
    with socket.create_server(place, backlog=world) as server:
        while len(peers) < world - 1:
            peer, _ = server.accept()
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peers[int(_received(peer, np.zeros((), np.int64)))] = peer
    return [peers[rank] for rank in range(1, world)]


def _connected(place: tuple[str, int], rank: int) -> socket.socket:
    peer = connected(place, CONNECT_SECONDS)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _send(peer, np.array(rank, np.int64))
    return peer


def _send(peer: socket.socket, array: np.ndarray) -> None:
    peer.sendall(np.ascontiguousarray(array).tobytes())


def _received(peer: socket.socket, like: np.ndarray) -> np.ndarray:
    data = bytearray(like.nbytes)
    left = memoryview(data)
    while left:
        count = peer.recv_into(left)
        if count == 0:
            raise ConnectionError("another rank closed its connection")
        left = left[count:]
    return np.frombuffer(data, like.dtype).reshape(like.shape).copy()
