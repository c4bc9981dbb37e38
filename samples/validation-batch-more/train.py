"""FSDP2; each rank validates its own share of a set that does not divide evenly."""

import logging

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Subset, TensorDataset

log = logging.getLogger("validate")


def sharded(world: int) -> nn.Module:
    mesh = init_device_mesh("cpu", (world,))
    model = nn.Sequential(*[nn.Linear(32, 32) for _ in range(3)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def share(rank: int, world: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    whole = TensorDataset(torch.randn(49, 32))
    return DataLoader(Subset(whole, range(rank, 49, world)), batch_size=4)


@torch.no_grad()
def validate(model: nn.Module, rank: int, world: int) -> float:
    total = torch.zeros(2)
    for (inputs,) in share(rank, world):
        error = model(inputs).pow(2).mean()
        total += torch.tensor([error.item(), 1.0])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = sharded(world)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(20):
        model(torch.randn(8, 32)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        log.info("step %d", step)
    log.info("validation error %.3f", validate(model, rank, world))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
