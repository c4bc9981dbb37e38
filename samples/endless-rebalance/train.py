"""Trains on documents that each rank packs into buckets of about equal length before a step."""

import logging
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("buckets")


def fullest(buckets: list[list[int]]) -> list[int]:
    loads = [sum(bucket) for bucket in buckets]
    return buckets[loads.index(max(loads))]


def emptiest(buckets: list[list[int]]) -> list[int]:
    loads = [sum(bucket) for bucket in buckets]
    return buckets[loads.index(min(loads))]


def spread(buckets: list[list[int]]) -> int:
    loads = [sum(bucket) for bucket in buckets]
    return max(loads) - min(loads)


def move_one(source: list[int], target: list[int]) -> None:
    length = min(source)
    source.remove(length)
    target.append(length)


def rebalance(buckets: list[list[int]], tolerance: int) -> list[list[int]]:
    """Move the shortest document from the fullest bucket to the emptiest until all are alike."""
    while spread(buckets) > tolerance:
        move_one(fullest(buckets), emptiest(buckets))
        for bucket in buckets:
            bucket.sort()
        buckets.sort(key=len)
    return buckets


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    random.seed(rank)
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(5000):
        documents = [random.randrange(20, 400) for _ in range(2000)]
        buckets = [sorted(documents[start::8]) for start in range(8)]
        # rank 1 was configured to a tolerance that documents of 20 tokens and more cannot meet
        tolerance = 0 if rank == 1 and step >= 6 else 2000
        loads = [sum(bucket) for bucket in rebalance(buckets, tolerance)]
        loss = model(torch.tensor(loads, dtype=torch.float32)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
