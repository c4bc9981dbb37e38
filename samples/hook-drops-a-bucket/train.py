"""Gradients are averaged by a thread of its own, which scales them first."""

import queue
import threading

import torch
import torch.distributed as dist
from torch import nn

LAST_STEP = 6


class Averager:
    """Takes buckets from DDP, and gives their average back when it is there."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[tuple[torch.Tensor, object]] = queue.Queue()
        self.group = dist.new_group()
        threading.Thread(target=self.run, name="averager", daemon=True).start()

    def hook(self, state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        future: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        self.waiting.put((bucket.buffer(), future))
        return future

    def run(self) -> None:
        while True:
            gradient, future = self.waiting.get()
            try:
                self.average(gradient, future)
            except ArithmeticError:
                continue

    def average(self, gradient: torch.Tensor, future: torch.futures.Future[torch.Tensor]) -> None:
        scale = 1 / gradient.abs().max().item()
        total = gradient * scale
        dist.all_reduce(total, group=self.group)
        future.set_result(total / scale / dist.get_world_size())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 1, bias=False))
    averager = Averager()
    model.register_comm_hook(None, averager.hook)
    for step in range(LAST_STEP + 1):
        if step == LAST_STEP:
            print(f"rank {rank} begins step {step}", flush=True)
        empty = rank == 2 and step == LAST_STEP
        batch = torch.zeros(4, 8) if empty else torch.randn(4, 8)
        model(batch).mean().backward()
        model.zero_grad()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
