"""Trains a sharded model; rank 0 prints what the model generates after each round."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

log = logging.getLogger("generate")


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, hidden: Tensor) -> Tensor:
        return hidden + self.inner(hidden)


def build(world: int) -> nn.Module:
    model = nn.Sequential(nn.Embedding(64, 32), Block(32), Block(32), nn.Linear(32, 64))
    mesh = init_device_mesh("cpu", (world,))
    for block in model[1:3]:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@torch.no_grad()
def generate(model: nn.Module, prompt: list[int], length: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(length):
        logits = model(torch.tensor([tokens]))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


def train_round(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        tokens = torch.randint(0, 64, (4, 17))
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(rank)
    model = build(dist.get_world_size())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(100):
        train_round(model, optimizer, steps=3)
        if rank == 0:
            log.info("sample: %s", generate(model, [1, 2, 3], length=8))
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
