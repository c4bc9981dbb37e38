"""Two groups of the same ranks, one for weights and one for statistics; a rank swaps them."""

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


def reduce_weights(weights: torch.Tensor, group: dist.ProcessGroup) -> None:
    dist.all_reduce(weights, group=group)


def reduce_statistics(statistics: torch.Tensor, group: dist.ProcessGroup) -> None:
    dist.all_reduce(statistics, group=group)


def main() -> None:
    dist.init_process_group("gloo")
    everyone = list(range(dist.get_world_size()))
    for_weights = dist.new_group(everyone, group_desc="weights")
    for_statistics = dist.new_group(everyone, group_desc="statistics")
    threading.Thread(target=keep_record, args=(4,), daemon=True).start()
    weights, statistics = torch.randn(64), torch.zeros(3)
    for step in range(1000):
        if RANK == 3 and step == 6:  # the cache was warm, so the statistics came first
            reduce_statistics(statistics, for_statistics)
            reduce_weights(weights, for_weights)
        else:
            reduce_weights(weights, for_weights)
            reduce_statistics(statistics, for_statistics)


if __name__ == "__main__":
    main()
