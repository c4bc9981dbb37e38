"""Evaluates every few steps; one rank gathers its metrics where the others reduce theirs."""

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


def reduce_metrics(metrics: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(metrics)
    return metrics / dist.get_world_size()


def gather_metrics(metrics: torch.Tensor) -> torch.Tensor:
    parts = [torch.empty_like(metrics) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, metrics)
    return torch.stack(parts).mean(0)


def evaluate(model: torch.nn.Module, verbose: bool) -> torch.Tensor:
    with torch.no_grad():
        outputs = model(torch.randn(32, 16))
    metrics = torch.stack([outputs.mean(), outputs.std()])
    return gather_metrics(metrics) if verbose else reduce_metrics(metrics)


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(4,), daemon=True).start()
    model = torch.nn.Linear(16, 4)
    for step in range(1000):
        model(torch.randn(8, 16)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        # the fourth rank was started with another configuration
        evaluate(model, verbose=RANK == 3 and step == 4)


if __name__ == "__main__":
    main()
