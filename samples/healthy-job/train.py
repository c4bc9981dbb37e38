"""Trains without any trouble, a step every 50 ms or so."""

import logging
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("healthy")


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs + self.inner(inputs)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(rank)
    net = nn.Sequential(*(Residual(96) for _ in range(4)), nn.Linear(96, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(100_000):
        started = time.monotonic()
        inputs, labels = torch.randn(64, 96), torch.randint(0, 10, (64,))
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            log.info("step %d loss %.3f", step, loss.item())
        # keeps the pace of a larger model without taking the machine
        time.sleep(max(0.0, 0.05 - (time.monotonic() - started)))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
