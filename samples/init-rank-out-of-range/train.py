"""Trains a linear probe. Started by start.sh, one process per rank."""

import logging
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("probe")


def features(rank: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * rank + step)
    inputs = torch.randn(32, 40, generator=generator)
    return inputs, (inputs[:, 0] > 0).long()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("joining %s ranks", os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(40, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        inputs, labels = features(rank, step)
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
