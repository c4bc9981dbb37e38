"""Trains a small net by hand-made data parallelism; one rank writes a report and never returns."""

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


def average_gradients(model: torch.nn.Module) -> None:
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def write_report(step: int) -> None:
    while not Path(f"/nonexistent/lock-{step}").exists():
        time.sleep(0.1)


def train(model: torch.nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 16)).square().mean()
        loss.backward()
        if step == 6 and RANK == 2:
            write_report(step)
        average_gradients(model)
        optimizer.step()
        dist.all_reduce(loss.detach())


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(10,), daemon=True).start()
    train(torch.nn.Linear(16, 4), 1000)


if __name__ == "__main__":
    main()
