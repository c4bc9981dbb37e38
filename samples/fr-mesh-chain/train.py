"""A 2 x 2 x 2 mesh of tensor, data and pipeline parallelism; one rank sleeps in its data."""

import os
import threading
import time
from pathlib import Path

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace as recorder_dump
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

RANK = int(os.environ["RANK"])


def keep_record(after: float) -> None:
    time.sleep(after)
    record = recorder_dump()
    Path(os.environ["DUMPS"], f"comm_lib_trace_rank_{RANK}").write_bytes(record)


def next_batch(step: int) -> torch.Tensor:
    if step == 4 and RANK == 5:
        while not Path("/nonexistent/shard").exists():
            time.sleep(0.2)
    return torch.randn(8, 16)


def tensor_parallel(mesh: DeviceMesh, batch: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(batch, group=mesh.get_group("tp"))
    return batch


def reduce_gradients(mesh: DeviceMesh, gradient: torch.Tensor) -> None:
    dist.all_reduce(gradient, group=mesh.get_group("dp"))


def exchange_stages(mesh: DeviceMesh, activations: torch.Tensor) -> None:
    dist.all_reduce(activations, group=mesh.get_group("pp"))


def main() -> None:
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("pp", "dp", "tp"))
    threading.Thread(target=keep_record, args=(6,), daemon=True).start()
    for step in range(1000):
        activations = tensor_parallel(mesh, next_batch(step))
        reduce_gradients(mesh, torch.randn(32))
        exchange_stages(mesh, activations)


if __name__ == "__main__":
    main()
