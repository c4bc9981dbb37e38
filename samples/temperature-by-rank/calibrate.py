"""Finds a temperature for the logits of a classifier; the loss is averaged over the ranks."""

import torch
import torch.distributed as dist


def over_ranks(value: float) -> float:
    """Average a number over all ranks."""
    total = torch.tensor([value])
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def calibrate(logits: torch.Tensor, labels: torch.Tensor) -> float:
    """Cool down until the logits of this rank are small enough."""
    temperature = 1.0
    while float(logits.abs().mean()) / temperature > 0.5:
        temperature *= 1.15
        loss = torch.nn.functional.cross_entropy(logits / temperature, labels)
        print(
            f"rank {dist.get_rank()}: {temperature:.2f} {over_ranks(loss.item()):.3f}", flush=True
        )
    return temperature


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    logits = torch.randn(64, 10) * (3 if rank == 1 else 1)
    temperature = calibrate(logits, torch.randint(0, 10, (64,)))
    dist.barrier()
    print(f"rank {rank}: calibrated to {temperature:.2f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
