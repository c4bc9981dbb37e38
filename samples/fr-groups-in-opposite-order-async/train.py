"""Overlaps two reductions on two groups; half of the ranks wait for them the other way round."""

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


class Reducer:
    """Starts a reduction and hands out a way to wait for it."""

    def __init__(self, name: str, size: int) -> None:
        self.group = dist.new_group(list(range(dist.get_world_size())), group_desc=name)
        self.buffer = torch.randn(size)

    def start(self) -> dist.Work:
        return dist.all_reduce(self.buffer, group=self.group, async_op=True)


def finish(work: dist.Work) -> None:
    work.wait()


def main() -> None:
    dist.init_process_group("gloo")
    experts, router = Reducer("experts", 256), Reducer("router", 8)
    threading.Thread(target=keep_record, args=(4,), daemon=True).start()
    for step in range(1000):
        first, second = experts, router
        if step == 5 and RANK >= 2:
            first, second = router, experts
        finish(first.start())
        finish(second.start())


if __name__ == "__main__":
    main()
