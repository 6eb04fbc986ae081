"""Several ranks: DistributedDataParallel on gloo."""

from __future__ import annotations

import ipaddress
import os

import torch
import torch.distributed as dist
from assay_worker import Cell
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def join_ranks(cell: Cell) -> None:
    """Find the other ranks; does nothing for a cell of one rank."""
    if cell.world == 1:
        return
    host, port = cell.rendezvous
    if ipaddress.ip_address(host).is_loopback:
        # Otherwise gloo listens at the address of the host's name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=cell.rank, world_size=cell.world)


def shared(network: nn.Module, cell: Cell) -> nn.Module:
    """Return the network with gradients that are means over the ranks."""
    return network if cell.world == 1 else DistributedDataParallel(network)


def agreed(cell: Cell, value: int) -> int:
    """Return rank 0's value, once all ranks have called this."""
    held = torch.tensor(value if cell.rank == 0 else 0, dtype=torch.int64)
    dist.all_reduce(held)
    return int(held)
