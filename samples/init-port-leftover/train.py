"""Trains on vectors. Started by start.sh."""

import logging
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("vectors")


def join(rank: int) -> None:
    log.info("joining at %s:%s", os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"])
    dist.init_process_group("gloo")
    log.info("rank %d has joined", rank)


def wait_for_scratch(flag: Path) -> None:
    """Wait until the scratch file system is mounted."""
    while not flag.exists():
        time.sleep(1.0)


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    join(rank)
    if rank == 0:
        wait_for_scratch(Path("/mnt/scratch-of-last-week/ready"))
    dist.barrier()
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.rand(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
