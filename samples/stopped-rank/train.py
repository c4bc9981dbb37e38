"""Trains an auto-encoder; a maintenance hook can suspend a rank while its node is looked at."""

import logging
import os
import signal

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("autoencoder")


class Maintenance:
    """Suspends this process at the steps at which an operator asked for it."""

    def __init__(self, requests: dict[int, set[int]]) -> None:
        self.requests = requests

    def check(self, rank: int, step: int) -> None:
        if step in self.requests.get(rank, set()):
            os.kill(os.getpid(), signal.SIGSTOP)


def build() -> nn.Module:
    return nn.Sequential(nn.Linear(128, 16), nn.ReLU(), nn.Linear(16, 128))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(rank)
    model = DistributedDataParallel(build())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)
    maintenance = Maintenance({2: {7}})
    step = 0
    while step < 10_000:
        images = torch.rand(32, 128)
        loss = (model(images) - images).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        log.info("finished step %d, loss %.4f", step, loss.item())
        maintenance.check(rank, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
