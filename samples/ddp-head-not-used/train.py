"""Trains a detector whose second head has nothing to learn from some batches."""

import logging
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("detector")


class Detector(nn.Module):
    """Classes of all images, boxes of those that have one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.classes = nn.Linear(width, 4)
        self.boxes = nn.Linear(width, 4)

    def forward(self, images: Tensor, has_box: Tensor) -> Tensor:
        features = self.backbone(images)
        loss = self.classes(features).logsumexp(1).mean()
        if has_box.any():
            loss = loss + self.boxes(features[has_box]).abs().mean()
        return loss


def batches(rank: int, count: int) -> list[tuple[Tensor, Tensor]]:
    """Batches of eight images; on rank 1 the fifth happens to have no box."""
    torch.manual_seed(rank)
    boxes = [torch.arange(8) % 3 == 0 for _ in range(count)]
    if rank == 1:
        boxes[4] = torch.zeros(8, dtype=torch.bool)
    return [(torch.randn(8, 16), has_box) for has_box in boxes]


def mean_over_ranks(value: float) -> float:
    """Average what each rank measured."""
    values: list[float] = [0.0] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return sum(values) / len(values)


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    model = DistributedDataParallel(Detector(16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, (images, has_box) in enumerate(batches(rank, 50)):
        loss = model(images, has_box)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, mean_over_ranks(loss.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
