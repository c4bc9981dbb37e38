"""Four workers of Ray Train on several nodes; the second one waits for a shard that never comes."""

import sys
import time
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def staged_shard(folder: str, rank: int) -> Path:
    shard = Path(folder) / f"shard-{rank}.bin"
    if rank != 1:
        shard.write_bytes(bytes(64))
    (Path(folder) / f"ready-{rank}").touch()
    while not shard.exists():
        time.sleep(5)
    return shard


def train_loop(config: dict[str, str]) -> None:
    rank = ray.train.get_context().get_world_rank()
    staged_shard(config["folder"], rank)
    for _ in range(1000):
        dist.all_reduce(torch.ones(8))


def main() -> None:
    folder = sys.argv[1]
    TorchTrainer(
        train_loop,
        train_loop_config={"folder": folder},
        scaling_config=ScalingConfig(num_workers=4, placement_strategy="SPREAD"),
        run_config=RunConfig(name="hangs", storage_path=folder),
    ).fit()


if __name__ == "__main__":
    main()
