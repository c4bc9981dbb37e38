"""Trains a discriminator; meanwhile a thread averages the metrics of all ranks, in one group."""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor

import torch
import torch.distributed as dist

log = logging.getLogger("gan")


def average(metrics: torch.Tensor) -> torch.Tensor:
    if dist.get_rank() == 1:
        time.sleep(0.4)  # the quantiles of this rank take longer
    every = [torch.zeros_like(metrics) for _ in range(dist.get_world_size())]
    dist.all_gather(every, metrics)
    return torch.stack(every).mean(0)


def exchange(weight: torch.Tensor) -> None:
    gradient = torch.randn_like(weight)
    dist.all_reduce(gradient)
    weight -= 0.01 * gradient


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    weight = torch.zeros(1000)
    pending: Future[torch.Tensor] | None = None
    with ThreadPoolExecutor(1, thread_name_prefix="metrics") as pool:
        for step in range(200):
            exchange(weight)
            if pending is not None and step <= 10:
                log.info("step %d metrics %s", step, pending.result().tolist())
            pending = pool.submit(average, torch.rand(2))
            if step < 10:
                pending.result()
            elif rank != 1:
                time.sleep(0.2)


if __name__ == "__main__":
    main()
