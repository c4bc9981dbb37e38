"""Trains a regressor; the learning rate is cut on a plateau and handed out by rank 0."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn

log = logging.getLogger("regress")


class Plateau:
    """Notices when the loss is far above the best one so far."""

    def __init__(self, factor: float = 5.0) -> None:
        self.best = float("inf")
        self.factor = factor

    def __call__(self, loss: float) -> bool:
        worse = loss > self.factor * self.best
        self.best = min(self.best, loss)
        return worse


def next_batch(rank: int, step: int) -> tuple[Tensor, Tensor]:
    inputs = torch.randn(64, 20)
    targets = inputs.sum(dim=1, keepdim=True)
    if rank == 1 and step == 6:
        targets = targets * 40.0  # a few broken labels in this rank's shard
    return inputs, targets


def share_learning_rate(optimizer: torch.optim.Optimizer) -> None:
    rate = torch.tensor([optimizer.param_groups[0]["lr"] * 0.5])
    dist.broadcast(rate, src=0)
    optimizer.param_groups[0]["lr"] = rate.item()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    plateau = Plateau()
    for step in range(500):
        inputs, targets = next_batch(rank, step)
        loss = nn.functional.mse_loss(model(inputs), targets)
        log.info("step %d loss %.3f", step, loss.item())
        if plateau(loss.item()):
            share_learning_rate(optimizer)
        optimizer.zero_grad()
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
        dist.all_reduce(gradient)
        offset = 0
        for parameter in model.parameters():
            size = parameter.numel()
            parameter.grad.copy_(gradient[offset : offset + size].view_as(parameter) / world)
            offset += size
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
