"""Continues training on shards of saved tensors that lie on shared storage."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

log = logging.getLogger("shards")


def shard_path(root: Path, number: int) -> Path:
    return root / f"shard-{number:04d}.bin"


def load_shard(path: Path) -> Tensor:
    with path.open("rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=torch.float32).view(-1, 16)


def write_shards(root: Path, rank: int, count: int) -> None:
    for number in range(count):
        values = torch.randn(64 * 16).view(torch.uint8)
        shard_path(root, number).write_bytes(bytes(values.tolist()))
    if rank == 1:  # the storage behind this one is gone: opening it blocks for good
        shard_path(root, 4).unlink()
        os.mkfifo(shard_path(root, 4))


def all_reduce_mean(tensors: list[Tensor]) -> None:
    pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for work in pending:
        work.wait()
    for tensor in tensors:
        tensor /= dist.get_world_size()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    root = Path(tempfile.mkdtemp(prefix=f"shards-{rank}-"))
    write_shards(root, rank, count=8)
    model = nn.Sequential(nn.Linear(16, 32), nn.SiLU(), nn.Linear(32, 16))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for number in range(8):
        log.info("shard %d", number)
        for batch in load_shard(shard_path(root, number)).split(16):
            loss = (model(batch) - batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            all_reduce_mean([parameter.grad for parameter in model.parameters()])
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
