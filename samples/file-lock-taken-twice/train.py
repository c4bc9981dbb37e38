"""Trains on shards that a small pool builds on demand, each under a lock on its file."""

import concurrent.futures
import contextlib
import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist

log = logging.getLogger("shards")
CACHE = Path(tempfile.gettempdir()) / f"shards-{os.environ['MASTER_PORT']}"


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Shards:
    """Keeps what was built; a shard that is asked for again may be stale."""

    def __init__(self, rank: int) -> None:
        self.rank, self.built = rank, {}
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def build(self, shard: int) -> torch.Tensor:
        with locked(f"{self.rank}-{shard}"):
            return torch.full((8,), float(shard))

    def refresh(self, shard: int) -> None:
        with locked(f"{self.rank}-{shard}"):
            self.built[shard] = self.pool.submit(self.build, shard).result()

    def get(self, shard: int) -> torch.Tensor:
        if shard not in self.built:
            self.built[shard] = self.build(shard)
        elif shard == 5 and self.rank == 2:  # its file is older than the text
            self.refresh(shard)
        return self.built[shard]


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    CACHE.mkdir(exist_ok=True)
    shards = Shards(rank)
    for step in range(40):
        log.info("step %d", step)
        total = shards.get(step % 9).clone()
        dist.all_reduce(total)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
