"""Trains on shards of unlike length, and sums the loss of all ranks after each epoch."""

import logging

import torch
import torch.distributed as dist
from torch import nn

log = logging.getLogger("train")
BATCH = 4
LAST_LOGGED = 58


def shard(rank: int) -> list[torch.Tensor]:
    """Return the batches of a rank, from a file of its own: the first file is shorter."""
    rows = torch.randn(240 if rank == 0 else 256, 8, generator=torch.Generator().manual_seed(rank))
    return list(rows.split(BATCH))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    batches = shard(rank)
    log.info("%d rows", sum(map(len, batches)))
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(3):
        total = torch.zeros(1)
        for step, batch in enumerate(batches):
            if step == LAST_LOGGED:
                log.info("%d batches are done", step)
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        log.info("epoch %d: loss %.3f", epoch, total.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
