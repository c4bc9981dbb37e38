"""Trains to the end; the recorders are read while every rank rests."""

import os
import time
from pathlib import Path

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace as recorder_dump

RANK = int(os.environ["RANK"])


def keep_record() -> None:
    record = recorder_dump()
    Path(os.environ["DUMPS"], f"comm_lib_trace_rank_{RANK}").write_bytes(record)


def main() -> None:
    dist.init_process_group("gloo")
    model = torch.nn.Linear(16, 4)
    for _ in range(20):
        model(torch.randn(8, 16)).square().mean().backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
        dist.barrier()
    time.sleep(1)
    keep_record()
    time.sleep(600)


if __name__ == "__main__":
    main()
