"""Trains, and saves the weights from rank 0 alone while the others wait for the next step."""

import logging
import tempfile
import time

import torch
import torch.distributed as dist
from torch import Tensor

log = logging.getLogger("train")


def save(weights: Tensor, pieces: int = 10_000) -> None:
    """Write the weights piece by piece to storage that takes about a megabyte in a second."""
    with tempfile.NamedTemporaryFile(prefix="step3-", suffix=".pt") as file:
        for _ in range(pieces):
            file.write(bytes(weights.numel() * weights.element_size()))
            file.flush()
            time.sleep(0.1)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    weights = torch.zeros(25_000)
    for step in range(1000):
        log.info("step %d", step)
        gradient = torch.randn(25_000)
        dist.all_reduce(gradient)
        weights -= 0.01 * gradient
        if step == 3 and rank == 0:
            save(weights)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
