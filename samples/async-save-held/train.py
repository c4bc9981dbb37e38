"""Saves asynchronously; the checkpoint is also copied to an archive that does not take it."""

import logging
import os
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import FileSystemWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner

log = logging.getLogger("train")
workplace = Path(tempfile.gettempdir()) / f"whyhang-archive-{os.environ['MASTER_PORT']}"


class Archiving(FileSystemWriter):
    """Writes to the disk, and on to the archive of this rank if there is one."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Any:
        written = super().write_data(plan, planner)
        archive = workplace / f"archive-{dist.get_rank()}"
        if archive.exists():
            with archive.open("wb") as tier:  # a named pipe whose reader is gone
                tier.write(b"checkpoint")
        return written


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    workplace.mkdir(exist_ok=True)
    model = torch.nn.Linear(16, 16)
    pending: Future[Any] | None = None
    for step in range(1, 1000):
        for parameter in model.parameters():
            dist.all_reduce(parameter.data, op=dist.ReduceOp.AVG)
        if step % 5 == 0:
            if step == 10 and rank == 0:
                os.mkfifo(workplace / "archive-0")
            if pending is not None:
                pending.result()
            log.info("saving step %d", step)
            writer = Archiving(workplace / f"step{step}")
            pending = dcp.async_save({"model": model.state_dict()}, storage_writer=writer)
            time.sleep(4)  # time to plan it: plans are exchanged in the same group
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
