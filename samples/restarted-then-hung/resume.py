"""Trains from a checkpoint; a damaged one makes its rank fail once, and torchrun starts anew."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn


class DamagedCheckpointError(Exception):
    """A rank's part of the checkpoint does not have the length that its header tells."""


def load(rank: int, start: int) -> nn.Module:
    """Load this rank's part; that of rank 1 is damaged until it is fetched again."""
    if start == 0:
        if rank == 1:
            raise DamagedCheckpointError("part 1 of 3 has 0 bytes")
        time.sleep(60)  # the others are still loading theirs
    return nn.Linear(8, 8)


def wait_for_upload(folder: Path) -> None:
    """Wait until the uploader has taken the log of the failed start; nobody runs one."""
    while not (folder / "uploaded").exists():
        time.sleep(0.5)


def main() -> None:
    rank, start = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    model = load(rank, start)
    dist.init_process_group("gloo")
    for step in range(3):
        print(f"start {start} step {step}", flush=True)
        loss = model(torch.ones(4, 8)).square().mean()
        loss.backward()
        if rank == 2 and step == 2:
            wait_for_upload(Path(sys.argv[0]).parent)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)


if __name__ == "__main__":
    main()
