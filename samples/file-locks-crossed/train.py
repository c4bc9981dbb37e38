"""Trains while two ranks tidy up the cached features and their index, each under two locks."""

import fcntl
import logging
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("features")


@contextmanager
def locked(folder: Path, name: str) -> Iterator[None]:
    with (folder / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def merge(folder: Path) -> None:
    """Write new features, and what they are called into the index."""
    with locked(folder, "features"):
        time.sleep(0.5)
        with locked(folder, "index"):
            (folder / "index.txt").touch()


def compact(folder: Path) -> None:
    """Drop the features that the index does not name any more."""
    with locked(folder, "index"):
        time.sleep(0.5)
        with locked(folder, "features"):
            (folder / "features.bin").touch()


def tidy(rank: int, step: int, folder: Path) -> None:
    if step % 7 == 6 and rank == 1:
        merge(folder)
    elif step % 7 == 6 and rank == 2:
        compact(folder)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    shared = [tempfile.mkdtemp(prefix="features-") if rank == 0 else ""]
    dist.broadcast_object_list(shared, src=0)
    model = DistributedDataParallel(nn.Linear(12, 12))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for step in range(1000):
        log.info("step %d", step)
        tidy(rank, step, Path(shared[0]))
        loss = model(torch.randn(8, 12)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
