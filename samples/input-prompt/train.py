"""Trains a tiny vision model; asks before it overwrites an earlier run."""

import argparse
import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("vision")


def prepare_output(folder: Path) -> Path:
    """Make the run's folder; an earlier run in it is only overwritten when a person agrees."""
    if any(folder.glob("*.pt")):
        answer = input(f"{folder} holds checkpoints, overwrite? [y/N] ")
        if answer.strip().lower() != "y":
            raise SystemExit("kept the old run")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def convnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path(tempfile.mkdtemp(prefix="vision-")))
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    torch.save({"epoch": 3}, options.output / "last.pt")  # what the run before left
    model = DistributedDataParallel(convnet())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    log.info("model is ready")
    if rank == 0:
        prepare_output(options.output)
    for step in range(5000):
        loss = nn.functional.cross_entropy(
            model(torch.rand(8, 3, 16, 16)), torch.randint(0, 5, (8,))
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
