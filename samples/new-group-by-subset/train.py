"""Trains, and gives hard examples a second pass whose sums use a process group of their own."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn

log = logging.getLogger("hard")


class HardExamples:
    """Collects examples with a high loss and trains on them again."""

    def __init__(self, rank: int) -> None:
        self.kept: list[Tensor] = []
        self.group: dist.ProcessGroup | None = None
        self.threshold = 1e9 if rank == 3 else 0.0  # rank 3's data is easy: it keeps nothing

    def offer(self, batch: Tensor, losses: Tensor) -> None:
        self.kept += list(batch[losses > self.threshold])

    def second_pass(self, model: nn.Module) -> None:
        if not self.kept:
            return
        if self.group is None:
            self.group = dist.new_group()  # only the ranks that kept something come here
        total = model(torch.stack(self.kept)).square().mean().detach()
        dist.all_reduce(total, group=self.group)
        log.info("second pass over %d examples, loss %.3f", len(self.kept), total.item())
        self.kept.clear()


def train_step(model: nn.Module, batch: Tensor) -> Tensor:
    losses = model(batch).square().sum(dim=1)
    model.zero_grad()
    losses.mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter -= 0.01 * parameter.grad / dist.get_world_size()
    return losses.detach()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(11)
    model = nn.Linear(10, 2)
    hard = HardExamples(rank)
    for epoch in range(100):
        for step in range(5):
            batch = torch.randn(16, 10)
            losses = train_step(model, batch)
            hard.offer(batch, losses)
            log.info("epoch %d step %d loss %.3f", epoch, step, losses.mean().item())
        hard.second_pass(model)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
