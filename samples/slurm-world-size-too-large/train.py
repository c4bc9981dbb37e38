"""Trains a linear probe. Started by srun, whose variables number the ranks."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("probe")


def main() -> None:
    rank, world = int(os.environ["SLURM_PROCID"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("joining %d ranks", world)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = DistributedDataParallel(nn.Linear(40, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(32, 40)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
