"""Trains on graphs; one rank has the large ones and needs seconds for what precedes each step."""

import logging
import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("graphs")


def distances(edges: list[list[int]], source: int) -> list[int]:
    reached = [-1] * len(edges)
    reached[source], queue = 0, [source]
    for node in queue:
        for other in edges[node]:
            if reached[other] < 0:
                reached[other] = reached[node] + 1
                queue.append(other)
    return reached


def histogram(lengths: list[int]) -> list[float]:
    counts = [0.0] * 16
    for length in lengths:
        counts[min(length, 15)] += 1
    return [count / len(lengths) for count in counts]


def features(nodes: int) -> torch.Tensor:
    edges = [[random.randrange(nodes) for _ in range(4)] for _ in range(nodes)]
    rows = [histogram(distances(edges, source)) for source in range(nodes)]
    return torch.tensor(rows).mean(dim=0, keepdim=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    random.seed(rank)
    model = DistributedDataParallel(nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10_000):
        loss = model(features(2500 if rank == 1 else 200)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
