"""Trains a linear model; started by torchrun, which numbers the ranks."""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("linear")


def main() -> None:
    dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO, format=f"[rank{dist.get_rank()}] %(message)s")
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(4, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
