"""Reduces over the columns of a mesh; the last rank logs a weight that is spread over its row."""

import logging
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

log = logging.getLogger("train")


def log_norm(weight: DTensor) -> None:
    log.info("norm %.3f", weight.full_tensor().norm().item())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    weight = distribute_tensor(torch.randn(8, 8), mesh["tensor"], [Shard(0)])
    for step in range(100_000):
        dist.all_reduce(torch.ones(4), group=mesh.get_group("data"))
        if step == 10:
            log.info("step %d", step)
            if rank == dist.get_world_size() - 1:
                log_norm(weight)
        time.sleep(0.02)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
