"""Keeps a journal that a thread flushes; now and then a child sums it up."""

import multiprocessing as mp
import threading
import time

import torch
import torch.distributed as dist
from torch import nn

SLOW_DISK = 0.5


class Journal:
    """Events of a rank, written by a thread of its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: list[str] = []

    def note(self, event: str) -> None:
        with self.lock:
            self.events.append(event)

    def flush(self) -> None:
        while True:
            with self.lock:
                time.sleep(SLOW_DISK)
            time.sleep(0.001)


def summarize(journal: Journal) -> None:
    journal.note("summed up")
    print(len(journal.events))


def main() -> None:
    dist.init_process_group("gloo")
    rank, journal = dist.get_rank(), Journal()
    model = nn.Linear(8, 1)
    for _ in range(10):
        model(torch.randn(4, 8)).mean().backward()
        dist.all_reduce(model.weight.grad)
        model.zero_grad()
    print(f"rank {rank} starts the summary", flush=True)
    if rank == 1:
        threading.Thread(target=journal.flush, name="flusher", daemon=True).start()
        time.sleep(SLOW_DISK / 2)
        summary = mp.get_context("fork").Process(target=summarize, args=(journal,))
        summary.start()
        summary.join()
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
