"""Trains a two-layer network. Started by start.sh, which numbers the ranks by hand."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger("numbers")


def sgd_step(model: nn.Module, loss: torch.Tensor, rate: float) -> None:
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter -= rate * parameter.grad / dist.get_world_size()


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("process %d is rank %d of %d", os.getpid(), rank, world)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 1))
    for step in range(1000):
        loss = model(torch.randn(16, 10)).square().mean()
        sgd_step(model, loss, rate=0.05)
        log.info("step %d loss %.4f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
