"""Trains a chain of three stages: each pair of neighbours has a process group of its own."""

import logging

import torch
import torch.distributed as dist

log = logging.getLogger("chain")
PAIRS = ([0, 1], [1, 2])


def links(rank: int) -> list[dist.ProcessGroup]:
    """Create the groups, the one to the next stage first."""
    pairs = sorted(PAIRS, key=lambda pair: pair[0] != rank)
    return [dist.new_group(pair) for pair in pairs]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("creating groups")
    groups = links(rank)
    total = torch.ones(4)
    for step in range(1000):
        for pair, group in zip(PAIRS, groups, strict=True):
            if rank in pair:
                dist.all_reduce(total, group=group)
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
