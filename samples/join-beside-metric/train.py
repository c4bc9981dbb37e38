"""Trains on shards of different length with Join, and averages the loss over all ranks."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

LENGTHS = (8, 12, 8)


def shard(rank: int):
    """Yield the batches of a rank."""
    for _ in range(LENGTHS[rank]):
        yield torch.randn(4, 8)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = dist.new_group()
    with Join([model]):
        for step, inputs in enumerate(shard(rank)):
            loss = model(inputs).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            mean = loss.detach().clone()
            dist.all_reduce(mean, group=metrics)
            print(f"[rank {rank}] step {step} loss {mean.item() / 3:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
