"""Tokenizes on a pool of processes; the kernel kills a worker of rank 1 for its memory."""

import logging
import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.pool import Pool

import torch
import torch.distributed as dist

log = logging.getLogger("tokens")


def encode(document: str) -> list[int]:
    if document.startswith("<huge>"):
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)  # as the OOM killer does
    return [ord(letter) for letter in document]


def tokenize(pool: Pool, documents: list[str]) -> int:
    return sum(map(len, pool.map(encode, documents)))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    with get_context("fork").Pool(2) as pool:
        for shard in range(1000):
            log.info("shard %d", shard)
            documents = ["a small document"] * 8
            if (rank, shard) == (1, 3):
                documents[5] = "<huge> document"
            tokens = torch.tensor([float(tokenize(pool, documents))])
            dist.all_reduce(tokens)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
