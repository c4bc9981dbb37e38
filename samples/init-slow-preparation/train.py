"""Trains on text that each rank cleans and tokenizes before it joins the group."""

import logging
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("text")


def clean(part: int) -> str:
    time.sleep(0.3)  # reads from a slow disk
    return f"part {part} of the corpus "


def tokenize(text: str) -> list[str]:
    end = time.monotonic() + 0.4
    words: list[str] = []
    while time.monotonic() < end:
        words = (text * 1000).split()
    return words


def prepare(parts: int) -> int:
    return sum(len(tokenize(clean(part))) for part in range(parts))


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    parts = 600 if rank == 1 else 1  # one shard is many times larger than the others
    log.info("preparing %d parts", parts)
    prepare(parts)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(8, 8))
    for step in range(1000):
        model(torch.randn(4, 8)).sum().backward()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
