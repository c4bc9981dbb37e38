"""Rank 0 deals out shares of a pool, a tag for each round; all add up what they made of them."""

import logging
import os
import time

import torch
import torch.distributed as dist
from torch import Tensor

log = logging.getLogger("pool")


def deal(pool: Tensor, size: int, tag: int) -> Tensor:
    shares = pool.chunk(size)
    sends = [dist.isend(shares[peer].clone(), dst=peer, tag=tag) for peer in range(1, size)]
    for send in sends:
        if send is not None:
            send.wait()
    return shares[0]


def take_share(rows: int, tag: int) -> Tensor:
    share = torch.empty(rows, 8)
    dist.recv(share, src=0, tag=tag)
    return share


def main() -> None:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    rounds_done = 0
    for number in range(1000):
        log.info("round %d", number)
        if rank == 1 and number == 4:
            rounds_done += 1  # a retry of its own was counted as a round
        if rank == 0:
            share = deal(torch.randn(4 * size, 8), size, rounds_done)
        else:
            share = take_share(4, rounds_done)
        total = share.sum().reshape(1)
        dist.all_reduce(total)
        rounds_done += 1
        time.sleep(0.05)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
