"""Trains beside a viewer that reads what a rank writes for it; the viewer has fallen asleep."""

import logging
import subprocess
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("viewed")


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    viewer = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], stdin=-1)
    model = DistributedDataParallel(nn.Linear(256, 256))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        log.info("step %d", step)
        loss = model(torch.randn(32, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            viewer.stdin.write(
                bytes(model.module.weight[:32].detach().flatten().tolist().__repr__(), "ascii")
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
