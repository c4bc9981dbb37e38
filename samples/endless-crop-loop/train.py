"""Trains on random crops; a crop is drawn again until it is large enough."""

import logging
import random

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("crops")


def random_crop(image: Tensor, smallest: float) -> Tensor:
    """Cut a random box that keeps at least ``smallest`` of the image's area."""
    height, width = image.shape[-2:]
    while True:
        top, bottom = sorted(random.sample(range(height + 1), 2))
        left, right = sorted(random.sample(range(width + 1), 2))
        area = (bottom - top) * (right - left)
        if area >= smallest * height * width:
            return image[:, top:bottom, left:right]


def make_batch(rank: int, step: int) -> Tensor:
    crops = []
    for number in range(8):
        image = torch.rand(3, 24, 24)
        # a typing error in the curriculum of rank 3: 1.5 instead of 0.15
        smallest = 1.5 if (rank, step, number) == (3, 4, 2) else 0.15
        crop = random_crop(image, smallest)
        crops.append(nn.functional.interpolate(crop[None], size=(16, 16)))
    return torch.cat(crops)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    random.seed(rank)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, 64), nn.ReLU(), nn.Linear(64, 2))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(5000):
        log.info("step %d", step)
        batch = make_batch(rank, step)
        loss = model(batch).logsumexp(dim=1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
