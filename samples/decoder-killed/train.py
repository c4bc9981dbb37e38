"""Decodes images in processes of its own; the kernel kills one of rank 2 for its memory."""

import logging
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.queues import Queue

import torch
import torch.distributed as dist

log = logging.getLogger("images")
SIDE = 16


def decode(paths: "Queue[str]", images: "Queue[list[float]]") -> None:
    while path := paths.get():
        if "panorama" in path:
            time.sleep(1)
            os.kill(os.getpid(), signal.SIGKILL)  # as the OOM killer does
        images.put([float(len(path))] * SIDE)


class Images:
    def __init__(self, processes: int) -> None:
        context = get_context("fork")
        self.paths: Queue[str] = context.Queue()
        self.images: Queue[list[float]] = context.Queue()
        for _ in range(processes):
            context.Process(target=decode, args=(self.paths, self.images), daemon=True).start()

    def batch(self, paths: list[str]) -> torch.Tensor:
        for path in paths:
            self.paths.put(path)
        return torch.tensor([self.images.get() for _ in paths])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    images = Images(2)
    for step in range(1000):
        log.info("step %d", step)
        paths = [f"photo-{step}-{n}.jpg" for n in range(6)]
        if (rank, step) == (2, 4):
            paths[3] = "panorama.tif"
        mean = images.batch(paths).mean()
        dist.all_reduce(mean)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
