"""Fine-tunes a model whose weights each rank reads before it wraps it."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("tune")


def weights_of(rank: int) -> Path:
    place = Path(tempfile.gettempdir()) / f"weights-{rank}"
    if rank == 2:  # a mount that has lost its server looks like a pipe without a writer
        os.mkfifo(place)
        os.open(place, os.O_RDWR)
    else:
        place.write_bytes(bytes(64))
    return place


def read_weights(place: Path) -> bytes:
    with open(place, "rb") as stream:
        return stream.read()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = nn.Sequential(nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))
    log.info("model has %d parameters", sum(p.numel() for p in model.parameters()))
    read_weights(weights_of(rank))
    model = DistributedDataParallel(model)
    for step in range(1000):
        model(torch.randn(4, 16)).sum().backward()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
