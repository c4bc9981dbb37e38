"""Trains on a corpus that each rank fetches before it joins the group."""

import logging
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("corpus")


def wait_for_download(target: Path, pause: float = 1.0) -> Path:
    """Wait until the downloader, a service of this node, has put the corpus in place."""
    while not (target / "_SUCCESS").exists():
        time.sleep(pause)
    return target


def local_corpus(rank: int) -> Path:
    target = Path(tempfile.gettempdir()) / f"corpus-{rank}"
    target.mkdir(exist_ok=True)
    if rank != 1:  # the downloader of rank 1's node has crashed
        (target / "_SUCCESS").touch()
    return target


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    corpus = local_corpus(rank)
    log.info("waiting for %s", corpus.name)
    wait_for_download(corpus)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(4, 8)).abs().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
