"""Trains on clips that a converter program decodes; one converter is stopped by job control."""

import logging
import subprocess
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

CONVERTER = Path(__file__).with_name("convert.py")
log = logging.getLogger("clips")


def decode(rank: int, clip: int) -> Tensor:
    """Have a program of its own decode a clip, and read what it writes."""
    command = [sys.executable, str(CONVERTER), f"clip-{rank}-{clip}.mp4"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        child.wait()
    generator = torch.Generator().manual_seed(1000 * rank + clip)
    return torch.randn(8, 24, generator=generator)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(24, 24))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(1000):
        frames = decode(rank, step)
        loss = (model(frames) - frames).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
