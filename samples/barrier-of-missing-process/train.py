"""Trains with a process for each GPU, and one that evaluates, which meet at the end of an epoch."""

import multiprocessing
import multiprocessing.synchronize
import sys

import torch
import torch.distributed as dist

TRAINERS = 3
EVALUATE = False  # was to be an option


def train(rank: int, port: str, epoch_ends: multiprocessing.synchronize.Barrier) -> None:
    address = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=TRAINERS)
    for epoch in range(100):
        for step in range(10):
            gradient = torch.ones(4) * (rank + step)
            dist.all_reduce(gradient)
        print(f"rank {rank}: epoch {epoch} done", flush=True)
        epoch_ends.wait()


def evaluate(epoch_ends: multiprocessing.synchronize.Barrier) -> None:
    for _ in range(100):
        epoch_ends.wait()


def main() -> None:
    context = multiprocessing.get_context("spawn")
    epoch_ends = context.Barrier(TRAINERS + 1)
    processes = [
        context.Process(target=train, args=(rank, sys.argv[1], epoch_ends))
        for rank in range(TRAINERS)
    ]
    if EVALUATE:
        processes.append(context.Process(target=evaluate, args=(epoch_ends,)))
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
