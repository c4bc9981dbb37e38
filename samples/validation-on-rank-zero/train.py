"""Validates every ten steps, on rank 0 alone, and waits there for all to be through."""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("train")


def validate(model: nn.Module) -> None:
    with torch.no_grad():
        loss = model(torch.randn(4, 8)).square().mean()
    log.info("validation loss %.4f", loss.item())
    dist.barrier()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(1000):
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 10:
            log.info("step %d", step)
        if step % 10 == 0 and step and rank == 0:
            validate(model.module)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
