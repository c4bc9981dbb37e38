"""Trains on a table that rank 0 receives through a pipe and announces in the store."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("table")


def stage() -> str:
    """Receive the table from the export service, which writes into this pipe."""
    pipe = Path(tempfile.gettempdir()) / "table.pipe"
    os.mkfifo(pipe)
    with open(pipe) as stream:
        return stream.read()


def announced_table(store: dist.Store, rank: int) -> str:
    if rank == 0:
        store.set("table", stage())
    return store.get("table").decode()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("joined %d ranks", dist.get_world_size())
    place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.PrefixStore("input", dist.TCPStore(*place, is_master=False))
    table = announced_table(store, rank)
    model = DistributedDataParallel(nn.Linear(8, 8))
    for step in range(len(table)):
        model(torch.randn(4, 8)).sum().backward()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
