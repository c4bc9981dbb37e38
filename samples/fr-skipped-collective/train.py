"""Trains with hand-made averaging; a rank without bad samples leaves a broadcast out."""

import os
import threading
import time
from pathlib import Path

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace as recorder_dump

RANK = int(os.environ["RANK"])


def keep_record(after: float) -> None:
    time.sleep(after)
    record = recorder_dump()
    Path(os.environ["DUMPS"], f"comm_lib_trace_rank_{RANK}").write_bytes(record)


def average_gradient(weights: torch.Tensor) -> None:
    dist.all_reduce(weights.grad)
    weights.grad /= dist.get_world_size()


def share_threshold(threshold: torch.Tensor) -> None:
    dist.broadcast(threshold, src=0)


def collect_scores(score: torch.Tensor) -> list[torch.Tensor]:
    scores = [torch.empty_like(score) for _ in range(dist.get_world_size())]
    dist.all_gather(scores, score)
    return scores


def step(number: int, weights: torch.Tensor, threshold: torch.Tensor) -> None:
    loss = (weights * torch.randn(64)).sum().square()
    loss.backward()
    average_gradient(weights)
    samples = torch.arange(4) + number
    clean = RANK == 1 and number == 5
    if not clean or bool((samples < 0).any()):
        share_threshold(threshold)
    collect_scores(loss.detach())
    weights.data -= 0.01 * weights.grad
    weights.grad = None


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(4,), daemon=True).start()
    weights = torch.randn(64, requires_grad=True)
    threshold = torch.ones(8)
    for number in range(1000):
        step(number, weights, threshold)


if __name__ == "__main__":
    main()
