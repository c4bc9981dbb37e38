"""Trains a small regressor with accumulated gradients. start.sh starts one process per rank."""

import argparse
import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn

BATCHES = 24
log = logging.getLogger("regressor")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world-size", type=int, required=True)
    parser.add_argument("--init-method", required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    return parser.parse_args()


def batch(rank: int, number: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(100 * rank + number)
    inputs = torch.randn(16, 20, generator=generator)
    return inputs, inputs.sum(dim=1, keepdim=True)


def share(model: nn.Module) -> None:
    """Add up the gradients of all ranks."""
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    offset = 0
    for parameter in model.parameters():
        size = parameter.numel()
        parameter.grad.copy_(flat[offset : offset + size].view_as(parameter))
        offset += size


def epoch(model: nn.Module, options: argparse.Namespace) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for number in range(1, BATCHES + 1):
        inputs, target = batch(options.rank, number)
        nn.functional.mse_loss(model(inputs), target).backward()
        if number % options.accumulate == 0:
            share(model)
            optimizer.step()
            optimizer.zero_grad()
            log.info("updated after batch %d", number)


def main() -> None:
    options = arguments()
    logging.basicConfig(level=logging.INFO, format=f"[rank{options.rank}] %(message)s")
    dist.init_process_group(
        "gloo",
        init_method=options.init_method,
        rank=options.rank,
        world_size=options.world_size,
    )
    model = nn.Linear(20, 1)
    epoch(model, options)
    dist.barrier()
    if options.rank == 0:
        torch.save(model.state_dict(), "regressor.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
