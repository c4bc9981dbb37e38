"""Trains on images that a licensed package transforms. Started by start.sh."""

import os

import torch
import torch.distributed as dist

print(f"[rank{os.environ['RANK']}] loading transforms", flush=True)
import transforms  # noqa: E402 - it asks for the licence before anything is loaded


def main() -> None:
    dist.init_process_group("gloo")
    total = torch.ones(4)
    for step in range(1000):
        dist.all_reduce(transforms.normal(total))
        print(f"[rank{dist.get_rank()}] step {step}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
