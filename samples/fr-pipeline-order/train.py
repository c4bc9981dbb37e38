"""Two stages of a pipeline; after a change of schedule both of them receive first."""

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
    Path(os.environ["DUMPS"], f"pid_{RANK}").write_text(str(os.getpid()))
    time.sleep(after)
    record = recorder_dump()
    Path(os.environ["DUMPS"], f"comm_lib_trace_rank_{RANK}").write_bytes(record)


def receive_gradient() -> torch.Tensor:
    gradient = torch.empty(8, 16)
    dist.recv(gradient, src=1)
    return gradient


def receive_activations() -> torch.Tensor:
    activations = torch.empty(8, 16)
    dist.recv(activations, src=0)
    return activations


def first_stage(warm_up: bool) -> None:
    if warm_up:
        dist.send(torch.randn(8, 16), dst=1)
        receive_gradient()
    else:
        receive_gradient()
        dist.send(torch.randn(8, 16), dst=1)


def second_stage() -> None:
    activations = receive_activations()
    dist.send(activations, dst=0)


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(5,), daemon=True).start()
    for step in range(1000):
        if RANK == 0:
            first_stage(warm_up=step < 4)
        else:
            second_stage()
        dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main()
