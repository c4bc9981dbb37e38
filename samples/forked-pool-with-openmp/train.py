"""Rank 1 mines hard examples with a pool of forked processes, after it has computed itself."""

import multiprocessing

import torch
import torch.distributed as dist


def hardness(seed: int) -> float:
    """Score one example: a matrix product, which torch spreads over OpenMP's threads."""
    torch.manual_seed(seed)
    features = torch.randn(600, 600)
    return float((features @ features.T).relu().mean())


def mine(rank: int) -> list[float]:
    """Score this rank's examples; only rank 1 has so many that a pool pays off."""
    if rank != 1:
        return [hardness(rank)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.map(hardness, range(8))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.set_num_threads(4)
    features = torch.randn(2000, 2000)
    print(f"rank {rank}: warmed up, {float(features.sort(dim=1)[0].exp().sum()):.0f}", flush=True)
    for epoch in range(3):
        scores = torch.tensor(mine(rank)).mean()
        dist.all_reduce(scores)
        print(f"rank {rank}: epoch {epoch} hardness {float(scores):.3f}", flush=True)


if __name__ == "__main__":
    main()
