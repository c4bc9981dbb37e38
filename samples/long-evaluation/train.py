"""Scores a test set on rank 0, which takes minutes and prints nothing; the others wait for it."""

import logging
import random
import time

import torch
import torch.distributed as dist

log = logging.getLogger("train")


def edit_distance(first: list[int], second: list[int]) -> int:
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        above, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (a != b))
    return row[-1]


def evaluate(sentences: int) -> float:
    source, errors = random.Random(0), 0
    for _ in range(sentences):
        spoken = [source.randrange(40) for _ in range(200)]
        understood = [source.randrange(40) for _ in range(200)]
        errors += edit_distance(spoken, understood)
    return errors / sentences


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    for step in range(1000):
        dist.all_reduce(torch.ones(4))
        time.sleep(0.05)
        if step == 20:
            log.info("step %d", step)
            if rank == 0:
                log.info("errors a sentence: %.1f", evaluate(100_000))
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
