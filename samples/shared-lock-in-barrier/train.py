"""Spawns ranks that prepare their data one after the other, under a lock that they share."""

import logging
import multiprocessing
import sys
import time
from multiprocessing.synchronize import Lock

import torch.distributed as dist
import torch.multiprocessing as mp

log = logging.getLogger("prepare")


def prepare(rank: int, lock: Lock) -> None:
    log.info("preparing the data")
    if rank != 1:
        time.sleep(1)
    with lock:
        # ... unpack what is not unpacked yet ...
        dist.barrier()  # so that nobody starts before all is there


def run(rank: int, world: int, port: int, lock: Lock) -> None:
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=world)
    prepare(rank, lock)
    log.info("prepared")
    dist.destroy_process_group()


if __name__ == "__main__":
    shared = multiprocessing.get_context("spawn").Lock()
    mp.spawn(run, args=(3, int(sys.argv[1]), shared), nprocs=3)
