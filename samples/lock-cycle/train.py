"""Trains with a metrics thread that shares two locks with the training loop."""

import logging
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("metrics")


class Metrics:
    """Collects losses and writes summaries from a thread of its own."""

    def __init__(self, eager: int | None) -> None:
        self.values_lock = threading.Lock()
        self.file_lock = threading.Lock()
        self.values: list[float] = []
        self.flush_wanted = threading.Event()
        self.eager = eager
        threading.Thread(target=self.write_summaries, name="summaries", daemon=True).start()

    def add(self, step: int, loss: float) -> None:
        with self.values_lock:
            self.values.append(loss)
            if step == self.eager:
                self.flush_wanted.set()
                time.sleep(0.2)
                self.rotate_file()

    def rotate_file(self) -> None:
        with self.file_lock:
            log.info("summary file rotated")

    def write_summaries(self) -> None:
        while True:
            self.flush_wanted.wait()
            with self.file_lock:
                time.sleep(0.4)
                with self.values_lock:
                    log.info("mean loss %.3f", sum(self.values) / len(self.values))
            self.flush_wanted.clear()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(16, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    metrics = Metrics(eager=6 if rank == 1 else None)
    for step in range(5000):
        loss = model(torch.randn(4, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.4f", step, loss.item())
        metrics.add(step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
