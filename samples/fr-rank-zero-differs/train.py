"""Saves a checkpoint on rank 0, and shares its name from there alone."""

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


def save_checkpoint(model: torch.nn.Module, step: int) -> None:
    if RANK == 0:
        number = torch.tensor([step])
        dist.broadcast(number, src=0)


def train_step(model: torch.nn.Module) -> None:
    model(torch.randn(8, 16)).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(4,), daemon=True).start()
    model = torch.nn.Linear(16, 4)
    for step in range(1, 1000):
        train_step(model)
        if step % 5 == 0:
            save_checkpoint(model, step)


if __name__ == "__main__":
    main()
