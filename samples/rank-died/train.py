"""Trains in two phases; the second one averages over a group of its own.

Started without torchrun, one process per rank (see start.sh), so nobody notices a death.
"""

import logging
import os
import resource

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger("phases")


def synchronise(model: nn.Module, group: dist.ProcessGroup | None = None) -> None:
    world = dist.get_world_size(group)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= world


def steps(model: nn.Module, count: int, group: dist.ProcessGroup | None = None) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(count):
        loss = model(torch.randn(16, 32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        synchronise(model, group)
        optimizer.step()
        log.info("step %d loss %.4f", step, loss.item())


def load_second_corpus(rank: int) -> None:
    """Map the corpus of the second phase; on rank 1's node the memory does not suffice."""
    log.info("loading the corpus of phase two")
    if rank == 1:
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        log.info("%d MB resident", used // 1024)
        os.kill(os.getpid(), 9)  # what the kernel does to a process that it picks


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    steps(model, 4)
    load_second_corpus(rank)
    group = dist.new_group()
    steps(model, 1000, group)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
