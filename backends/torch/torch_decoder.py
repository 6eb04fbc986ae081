"""Task decode: tokens one at a time, with caches of a fixed size."""

from __future__ import annotations

from collections.abc import Callable

import torch
from assay_worker import Cell, Decoding
from torch import Tensor
from torch_network import Network
from torch_settings import COMPILE


class Decoder:
    """The caches and the position of a network, which its two graphs update in place."""

    def __init__(self, decoding: Decoding, network: Network, cell: Cell) -> None:
        dtype = torch.bfloat16 if cell.precision == "bf16" else torch.float32
        device = torch.device(cell.device)
        self._caches = [torch.zeros(value.shape, dtype=dtype, device=device) for value in decoding.caches]
        self._position = torch.zeros(decoding.position.shape, dtype=torch.int64, device=device)
        self._prefill: Callable[..., Tensor] = network.prefill
        self._next_token: Callable[..., Tensor] = network.next_token
        if cell.mode in COMPILE:
            self._prefill = torch.compile(network.prefill, **COMPILE[cell.mode])
            self._next_token = torch.compile(network.next_token, **COMPILE[cell.mode])

    def clear(self) -> None:
        for tensor in self._kept:
            tensor.zero_()

    def prefill(self, inputs: Tensor) -> Tensor:
        # Later places may have keys of an earlier sample: the mask hides them.
        self._position.zero_()
        return self._prefill(inputs, self._kept)

    def next_token(self, inputs: Tensor) -> Tensor:
        return self._next_token(inputs, self._kept)

    @property
    def cache_bytes(self) -> int:
        return sum(cache.nbytes for cache in self._caches)

    @property
    def _kept(self) -> list[Tensor]:
        return [*self._caches, self._position]
