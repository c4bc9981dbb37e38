"""Every rank has joined the reduction; one was stopped right after, as if its host froze."""

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


def average(gradients: torch.Tensor, freeze: bool) -> None:
    work = dist.all_reduce(gradients, async_op=True)
    if freeze:
        keep_record(1)
        os.kill(os.getpid(), signal.SIGSTOP)
    work.wait()


def main() -> None:
    dist.init_process_group("gloo")
    recorder_dump()  # the first one takes seconds, and time will matter
    threading.Thread(target=keep_record, args=(20,), daemon=True).start()
    for step in range(1000):
        gradients = torch.randn(1024)
        last = step == 8
        dist.barrier()
        if last and RANK != 1:
            time.sleep(8)
        average(gradients, freeze=last and RANK == 1)


if __name__ == "__main__":
    main()
