"""Trains an encoder with hand-written gradient averaging, then merges the ranks' outputs."""

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

STEPS = 9
log = logging.getLogger("embed")


def batches(rank: int) -> Iterator[Tensor]:
    """Yield filtered documents; a filter may leave nothing of a batch."""
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(STEPS):
        kept = 0 if (rank, step) == (2, 4) else 16
        yield torch.randn(kept, 48, generator=generator)


def average_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def fit(model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
    for step, batch in enumerate(batches(rank)):
        log.info("step %d of %d, %d documents", step + 1, STEPS, len(batch))
        if len(batch) == 0:
            continue
        optimizer.zero_grad()
        loss = (model(batch) - batch).square().mean()
        loss.backward()
        average_gradients(model)
        optimizer.step()


def merge_parts(folder: Path, rank: int, world: int) -> list[Path]:
    """Write this rank's part, then wait until every rank has written its own."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"rank": rank}, folder / f"part-{rank:03d}.pt")
    while len(parts := sorted(folder.glob("part-*.pt"))) < world:
        time.sleep(1.0)
    return parts


def main() -> None:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s rank={rank} %(message)s")
    dist.init_process_group("gloo")
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(48, 12), nn.Tanh(), nn.Linear(12, 48))
    fit(model, torch.optim.SGD(model.parameters(), lr=0.05), rank)
    merge_parts(Path(tempfile.gettempdir()) / "embeddings", rank, world)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
