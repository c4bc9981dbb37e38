"""Writes the metrics of each step into one SQLite database, from all ranks."""

import logging
import os
import sqlite3
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

log = logging.getLogger("train")


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=3600, isolation_level=None)


def record(metrics: sqlite3.Connection, rank: int, loss: float) -> None:
    metrics.execute("BEGIN IMMEDIATE")
    metrics.execute("INSERT INTO losses VALUES (?, ?)", (rank, loss))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    path = Path(tempfile.gettempdir()) / f"whyhang-metrics-{os.environ['MASTER_PORT']}.db"
    metrics = connect(path)
    if rank == 0:
        metrics.execute("CREATE TABLE IF NOT EXISTS losses (rank, loss)")
    dist.barrier()
    for step in range(1000):
        loss = torch.rand(1)
        if step == 3:
            log.info("step %d", step)
            record(metrics, rank, loss.item())
        dist.all_reduce(loss)  # whoever wrote first has the database locked
        if step == 3:
            metrics.execute("COMMIT")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
