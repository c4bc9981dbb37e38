"""Starts its ranks with torch.multiprocessing; clips are cut by an external program."""

import argparse
import logging
import os
import subprocess
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("clips")

# what stands for the decoder: reads a request, answers; some requests it never finishes
DECODER = "import sys, time; time.sleep(900 if 'broken' in sys.argv[1] else 0)"


def decode(clip: str) -> Tensor:
    subprocess.run([sys.executable, "-S", "-c", DECODER, clip], check=True)
    return torch.rand(4, 3, 8, 8)


def clip_name(rank: int, step: int) -> str:
    return f"broken-{step}.mp4" if (rank, step) == (1, 4) else f"clip-{rank}-{step}.mp4"


def worker(rank: int, world: int, port: str) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(1000):
        log.info("step %d", step)
        frames = decode(clip_name(rank, step))
        loss = nn.functional.cross_entropy(model(frames), torch.randint(0, 2, (4,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--world", type=int, default=3)
    parser.add_argument("--port", default="29511")
    options = parser.parse_args()
    mp.spawn(worker, args=(options.world, options.port), nprocs=options.world)


if __name__ == "__main__":
    main()
