"""Passes blocks of keys around a ring, as ring attention does, with a barrier after each pass."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor

log = logging.getLogger("ring")


def pass_on(block: Tensor, number: int) -> Tensor:
    rank, world = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(block)
    calls = [dist.P2POp(dist.irecv, received, (rank - 1) % world)]
    if not (rank == 1 and number == 3):  # a block that was found empty is not sent
        calls.append(dist.P2POp(dist.isend, block, (rank + 1) % world))
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return received


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    block = torch.full((16,), float(rank))
    for number in range(1000):
        log.info("pass %d", number)
        block = pass_on(block, number)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
