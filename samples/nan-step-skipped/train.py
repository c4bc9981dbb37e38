"""Trains with DDP, leaves out steps whose loss is not a number, and logs a mean loss at times."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("train")


def batch(rank: int, step: int) -> Tensor:
    inputs = torch.randn(4, 4)
    if (rank, step) == (3, 7):
        inputs[0, 0] = float("nan")  # one broken sample in this rank's share
    return inputs


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(1000):
        log.info("step %d of 1000", step)
        loss = model(batch(rank, step)).square().mean()
        if torch.isnan(loss):
            optimizer.zero_grad()
            continue  # on this rank alone
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 5 == 4:
            mean = loss.detach()
            dist.all_reduce(mean)
            log.info("mean loss %.3f", mean / world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
