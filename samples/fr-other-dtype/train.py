"""Averages a loss; one rank computes it in half precision after a fallback."""

import os
import signal
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


def compute_loss(model: torch.nn.Module, fallback: bool) -> torch.Tensor:
    loss = model(torch.randn(8, 16)).square().mean(0)
    return loss.half() if fallback else loss


def average_loss(loss: torch.Tensor) -> torch.Tensor:
    work = dist.all_reduce(loss, async_op=True)
    if loss.dtype is torch.float16:
        # gloo would abort the process as soon as the first message arrives; NCCL hangs
        keep_record(1)
        os.kill(os.getpid(), signal.SIGSTOP)
    work.wait()
    return loss / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    recorder_dump()  # the first one takes seconds, and time will matter
    threading.Thread(target=keep_record, args=(20,), daemon=True).start()
    model = torch.nn.Linear(16, 16)
    for step in range(1000):
        dist.barrier()
        unstable = RANK == 1 and step == 7
        if step == 7 and not unstable:
            time.sleep(8)
        average_loss(compute_loss(model, fallback=unstable).detach())


if __name__ == "__main__":
    main()
