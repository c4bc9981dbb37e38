"""Passes activations around a ring of stages; one stage sends past its neighbour."""

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


def send_forward(activations: torch.Tensor, dst: int) -> None:
    dist.send(activations, dst)


def receive_forward(src: int) -> torch.Tensor:
    activations = torch.empty(8, 16)
    dist.recv(activations, src)
    return activations


def pass_on(step: int) -> None:
    world = dist.get_world_size()
    following, before = (RANK + 1) % world, (RANK - 1) % world
    if RANK == 1 and step == 5:
        following = (RANK + 2) % world  # a stage was taken out of the plan
    if RANK == 0:
        send_forward(torch.randn(8, 16), following)
        receive_forward(before)
    else:
        send_forward(receive_forward(before), following)


def main() -> None:
    dist.init_process_group("gloo")
    threading.Thread(target=keep_record, args=(5,), daemon=True).start()
    for step in range(1000):
        pass_on(step)
        dist.all_reduce(torch.ones(1))


if __name__ == "__main__":
    main()
