"""Trains on a data set that was split over the ranks without padding, without join()."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("uneven")


def my_part(data: Tensor, rank: int, world: int, batch_size: int) -> list[Tensor]:
    """Cut the data into equal slices but for the last rank, which takes what is left."""
    share = -(-len(data) // world)
    return list(data[rank * share : (rank + 1) * share].split(batch_size))


def run_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, part: list[Tensor]) -> float:
    total = 0.0
    for number, batch in enumerate(part, start=1):
        log.info("batch %d of %d", number, len(part))
        loss = (model(batch[:, :8]) - batch[:, 8:]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    log.info("went through all %d batches", len(part))
    return total / len(part)


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    data = torch.randn(201, 12, generator=torch.Generator().manual_seed(1))
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    part = my_part(data, rank, world, batch_size=10)
    for epoch in range(30):
        loss = run_epoch(model, optimizer, part)
        dist.barrier()
        log.info("epoch %d loss %.4f", epoch, loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
