"""Trains from a queue that a prefetch thread of each rank keeps filled."""

import logging
import queue
import threading
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("prefetch")


def records(rank: int) -> Iterator[dict[str, Tensor]]:
    for number in range(10_000):
        record = {"inputs": torch.randn(8, 20), "targets": torch.randn(8, 2)}
        if (rank, number) == (2, 6):
            del record["targets"]  # one broken record in this rank's shard
        yield record


class Prefetcher:
    """Makes batches ahead of time. An error in the thread ends it, and nobody hears of it."""

    def __init__(self, rank: int, depth: int = 2) -> None:
        self.ready: queue.Queue[tuple[Tensor, Tensor]] = queue.Queue(depth)
        self.thread = threading.Thread(target=self.fill, args=(rank,), daemon=True)
        self.thread.start()

    def fill(self, rank: int) -> None:
        for record in records(rank):
            self.ready.put((record["inputs"], record["targets"]))

    def next_batch(self) -> tuple[Tensor, Tensor]:
        return self.ready.get()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(20, 20), nn.ELU(), nn.Linear(20, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    prefetcher = Prefetcher(rank)
    for step in range(10_000):
        log.info("step %d", step)
        inputs, targets = prefetcher.next_batch()
        loss = nn.functional.huber_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
