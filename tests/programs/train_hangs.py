"""Trains until one rank does not come: argument 1 says how, argument 2 which rank."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Shards(Dataset):
    """Items, one of which a file server never brings."""

    def __init__(self, missing: int | None) -> None:
        self.missing = missing

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        while index == self.missing:
            time.sleep(5)
        return torch.ones(4)


def stage_checkpoint() -> None:
    """Wait until someone has staged the checkpoint of this node."""
    while True:
        time.sleep(5)


def main() -> None:
    how, who = sys.argv[1], int(sys.argv[2])
    rank = int(os.environ.get("SLURM_PROCID") or os.environ["RANK"])
    world = int(os.environ.get("SLURM_NTASKS") or os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    dist.all_reduce(torch.ones(1))
    missing = 40 if how == "loader" and rank == who else None
    loader = DataLoader(Shards(missing), batch_size=8, num_workers=1 if missing else 0)
    print(f"rank {rank} ready", flush=True)
    for step, batch in enumerate(loader):
        if how == "elsewhere" and rank == who and step == 3:
            stage_checkpoint()
        dist.all_reduce(batch)


if __name__ == "__main__":
    main()
