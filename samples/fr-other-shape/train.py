"""Averages activations; one rank's last batch is smaller, and so is what it puts in."""

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
BATCH, LAST_BATCH, WIDTH = 32, 20, 16


def keep_record(after: float) -> None:
    time.sleep(after)
    record = recorder_dump()
    Path(os.environ["DUMPS"], f"comm_lib_trace_rank_{RANK}").write_bytes(record)


def batches(count: int):
    for number in range(count):
        last = RANK == 2 and number == 5
        yield torch.randn(LAST_BATCH if last else BATCH, WIDTH)


def average_activations(activations: torch.Tensor) -> torch.Tensor:
    work = dist.all_reduce(activations, async_op=True)
    if len(activations) != BATCH:
        # gloo would abort the process as soon as the first message arrives; NCCL hangs
        keep_record(1)
        os.kill(os.getpid(), signal.SIGSTOP)
    work.wait()
    return activations / dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    recorder_dump()  # the first one takes seconds, and time will matter
    threading.Thread(target=keep_record, args=(20,), daemon=True).start()
    model = torch.nn.Linear(WIDTH, WIDTH)
    for number, batch in enumerate(batches(1000)):
        dist.barrier()
        if number == 5 and RANK != 2:
            time.sleep(8)
        average_activations(model(batch).detach())


if __name__ == "__main__":
    main()
