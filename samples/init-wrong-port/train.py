"""Trains on counts. Started by start.sh; the last rank took its port from an old job's file."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("counts")


def rendezvous_url(rank: int) -> str:
    """Say where rank 0's store listens."""
    port = int(os.environ["MASTER_PORT"])
    if rank == 2:  # the file of the old job
        port = int(os.environ["OLD_PORT"])
    return f"tcp://{os.environ['MASTER_ADDR']}:{port}"


def join(rank: int, world: int) -> None:
    log.info("joining through %s", rendezvous_url(rank))
    dist.init_process_group("gloo", init_method=rendezvous_url(rank), rank=rank, world_size=world)


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    join(rank, world)
    model = DistributedDataParallel(nn.Linear(6, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.rand(4, 6)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
