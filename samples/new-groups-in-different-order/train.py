"""Trains with a grid of two by two ranks: sums over rows and over columns."""

import logging

import torch
import torch.distributed as dist

log = logging.getLogger("grid")
ROWS = ([0, 1], [2, 3])
COLUMNS = ([0, 2], [1, 3])


def grid_groups(rank: int) -> list[dist.ProcessGroup]:
    """Create the groups this rank belongs to first, as a cache of groups would."""
    lists = sorted((*ROWS, *COLUMNS), key=lambda ranks: rank not in ranks)
    return [dist.new_group(ranks) for ranks in lists]


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("creating groups")
    groups = grid_groups(rank)
    total = torch.ones(4)
    for step in range(1000):
        for group in groups[:2]:
            dist.all_reduce(total, group=group)
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
