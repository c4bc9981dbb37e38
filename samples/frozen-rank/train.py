"""Trains a classifier; one rank is moved to a control group that is then frozen, as by a pause."""

import logging
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("classifier")


def cgroup2() -> Path:
    """Find where control groups of version 2 are mounted."""
    lines = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    return Path(next(field[1] for field in lines if field[2] == "cgroup2"))


def pause() -> None:
    """Do what ``docker pause`` does, to this process alone."""
    group = cgroup2() / "whyhang-frozen-rank"
    group.mkdir(exist_ok=True)
    (group / "cgroup.freeze").write_text("0")
    (group / "cgroup.procs").write_text(str(os.getpid()))
    (group / "cgroup.freeze").write_text("1")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 5)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        log.info("step %d", step)
        if rank == 2 and step == 4:
            pause()
        labels = torch.randint(0, 5, (16,))
        loss = nn.functional.cross_entropy(model(torch.randn(16, 20)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
