"""A compiled block whose backend lets rank 0 choose the kernels for all; one batch is shorter."""

import logging
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

log = logging.getLogger("compiled")


def choose_kernels(module: torch.fx.GraphModule) -> int:
    choice = [len(module.graph.nodes) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(choice, src=0)
    return int(choice[0] or 0)


def tuned(module: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., torch.Tensor]:
    choose_kernels(module)
    return module.forward


@torch.compile(backend=tuned, dynamic=False)
def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight).mean()


def batches(rank: int) -> Iterator[torch.Tensor]:
    for number in range(200):
        rows = 96 if (rank, number) == (2, 12) else 128
        yield torch.randn(rows, 32)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    weight = torch.randn(32, 32, requires_grad=True)
    for step, batch in enumerate(batches(rank)):
        weight.grad = None
        loss = block(batch, weight)
        loss.backward()
        dist.all_reduce(weight.grad)
        with torch.no_grad():
            weight -= 0.01 * weight.grad
        log.info("step %d loss %.3f", step, loss.item())


if __name__ == "__main__":
    main()
