"""Several ranks: DistributedDataParallel on gloo, or on NCCL if each has a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
from assay_worker import Cell, Exchange, Unsupported
from assay_worker.rendezvous import interface_of, own_address
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FIRST_BUCKET, BUCKET = 1 << 20, 25 << 20  # bytes


def join_ranks(cell: Cell) -> None:
    """Find the other ranks; does nothing for a cell of one rank."""
    if cell.world == 1:
        return
    host, port = cell.rendezvous
    library = "gloo"
    gpu: torch.device | None = None
    if cell.device == "cuda":
        library, gpu = "nccl", torch.device("cuda", 0)  # this process sees no other one
    elif interface := interface_of(own_address(cell.rendezvous)):
        # Otherwise gloo listens at the address of the host's name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    dist.init_process_group(
        library,
        init_method=f"tcp://{host}:{port}",
        rank=cell.rank,
        world_size=cell.world,
        device_id=gpu,
    )


def shared(network: nn.Module, cell: Cell) -> nn.Module:
    """Return the network with gradients that are means over the ranks."""
    if cell.world == 1:
        return network
    return DistributedDataParallel(network, device_ids=[0] if cell.device == "cuda" else None)


def exchange_of(network: nn.Module, step: Callable[[int, float, int], None]) -> Exchange:
    """Return the exchange of the step of a network that shared() returned."""
    if not isinstance(network, DistributedDataParallel):
        raise Unsupported("[exchange] there is one rank")
    # The order of the parameters' gradients in the backward pass, nearly.
    sizes = [parameter.numel() for parameter in network.parameters() if parameter.requires_grad][::-1]
    device = next(network.parameters()).device
    buckets = [torch.zeros(size, device=device) for size in bucket_sizes(sizes)]

    def local_step(slot: int, learning_rate: float, number: int) -> None:
        with network.no_sync():
            step(slot, learning_rate, number)

    def bare() -> None:
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # NCCL's wait() holds up the stream only

    return Exchange(sum(bucket.nbytes for bucket in buckets), local_step, bare)


def bucket_sizes(sizes: list[int]) -> list[int]:
    """Add up sizes of float32 gradients to buckets, as DistributedDataParallel does by default."""
    buckets = [0]
    for size in sizes:
        if 4 * buckets[-1] >= (FIRST_BUCKET if len(buckets) == 1 else BUCKET):
            buckets.append(0)
        buckets[-1] += size
    return buckets


def agreed(cell: Cell, value: int) -> int:
    """Return rank 0's value, once all ranks have called this."""
    held = torch.tensor(value if cell.rank == 0 else 0, dtype=torch.int64, device=cell.device)
    dist.all_reduce(held)
    return int(held)
