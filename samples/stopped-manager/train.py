"""Learners whose first samples from a replay buffer in a manager process; that one is stopped."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
from multiprocessing.managers import ListProxy

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("learner")
WORLD = 3


def sample(buffer: ListProxy[list[float]]) -> Tensor:
    """Take the newest transitions from the buffer, which another process holds."""
    return torch.tensor(buffer[-8:])


def learn(rank: int, port: int, buffer: ListProxy[list[float]], keeper: int) -> None:
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD)
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(4, 1))
    for step in range(1000):
        if rank == 0 and step == 30:
            os.kill(keeper, signal.SIGSTOP)  # job control of a shell that meant another one
        batch = sample(buffer) if rank == 0 else torch.randn(8, 4)
        loss = model(batch).square().mean()
        loss.backward()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


def main() -> None:
    with multiprocessing.Manager() as manager:
        buffer = manager.list([[0.1, 0.2, 0.3, 0.4]] * 64)
        keeper = multiprocessing.active_children()[0].pid
        mp.spawn(learn, args=(int(sys.argv[1]), buffer, keeper), nprocs=WORLD)


if __name__ == "__main__":
    main()
