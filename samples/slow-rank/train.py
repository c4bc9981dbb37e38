"""Trains on augmented sequences; the augmentation is far slower on one rank than on others."""

import logging
import random

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("augment")


def edit_distance(left: list[int], right: list[int]) -> int:
    row = list(range(len(right) + 1))
    for i, a in enumerate(left, start=1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right, start=1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


def distort(tokens: list[int]) -> list[int]:
    changed = [token if random.random() > 0.2 else random.randrange(50) for token in tokens]
    return changed if edit_distance(tokens, changed) > 3 else tokens


def make_batch(length: int) -> Tensor:
    rows = [[random.randrange(50) for _ in range(length)] for _ in range(4)]
    return torch.tensor([distort(row)[:64] for row in rows])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    random.seed(rank)
    net = nn.Sequential(nn.Embedding(50, 8), nn.Flatten(), nn.Linear(8 * 64, 50))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    length = 700 if rank == 2 else 64  # rank 2 got the long documents
    for step in range(100_000):
        tokens = make_batch(length)
        loss = nn.functional.cross_entropy(model(tokens), tokens[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
