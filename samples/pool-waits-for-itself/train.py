"""Loads shards ahead of time on a pool of two threads; shards of many parts use the pool, too."""

import logging
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch import Tensor

log = logging.getLogger("shards")
pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="loader")


def load_part(shard: int, part: int) -> Tensor:
    return torch.full((4,), float(shard + part))


def load_shard(shard: int, parts: int) -> Tensor:
    if parts == 1:
        return load_part(shard, 0)
    loading = [pool.submit(load_part, shard, number) for number in range(parts)]
    return torch.cat([part.result() for part in loading])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    for step in range(1000):
        log.info("step %d", step)
        parts = 3 if (rank, step) == (1, 4) else 1  # two large shards meet on one rank
        shards: list[Future[Tensor]] = [
            pool.submit(load_shard, 2 * step + number, parts) for number in range(2)
        ]
        total = torch.stack([shard.result().sum() for shard in shards]).sum()
        dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
