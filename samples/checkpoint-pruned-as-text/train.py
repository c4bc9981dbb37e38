"""Trains with a checkpoint every few steps, of which the last two are kept."""

import logging
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

log = logging.getLogger("train")
EVERY, KEEP = 4, 2


def save(folder: Path, step: int, state: Tensor) -> None:
    """Write a checkpoint; its mark comes last."""
    own = folder / f"step-{step}"
    own.mkdir(parents=True)
    torch.save(state, own / "state.pt")
    (own / "complete").touch()


def prune(folder: Path) -> None:
    """Remove all but the last checkpoints."""
    checkpoints = sorted(folder.iterdir(), key=lambda path: path.name)
    for old in checkpoints[:-KEEP]:
        shutil.rmtree(old)
    log.info("kept %s", ", ".join(path.name for path in checkpoints[-KEEP:]))


def await_checkpoint(folder: Path, step: int) -> None:
    """Wait until rank 0 has written the checkpoint of a step."""
    while not (folder / f"step-{step}" / "complete").exists():
        time.sleep(0.2)


def average(state: Tensor) -> Tensor:
    dist.all_reduce(state)
    return state / dist.get_world_size()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s", stream=sys.stdout)
    dist.init_process_group("gloo")
    folder = Path(tempfile.gettempdir()) / f"checkpoints-{os.environ['MASTER_PORT']}"
    if rank == 0:
        shutil.rmtree(folder, ignore_errors=True)
    dist.barrier()
    state = torch.randn(64)
    for step in range(1, 60):
        state = average(state)
        if step % EVERY == 0:
            if rank == 0:
                save(folder, step, state)
                prune(folder)
            else:
                await_checkpoint(folder, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
