"""Trains a sequence tagger; someone was looking for the source of infinite losses."""

import logging

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("tagger")


class Tagger(nn.Module):
    def __init__(self, tags: int = 9) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 24)
        self.tag = nn.Linear(24, tags)

    def forward(self, words: Tensor) -> Tensor:
        return self.tag(self.embed(words))


def weighted_loss(logits: Tensor, tags: Tensor, weights: Tensor) -> Tensor:
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tags.flatten(), reduction="none")
    loss = (loss * weights.flatten()).mean()
    if not torch.isfinite(loss):
        breakpoint()
    return loss


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(40 + rank)
    model = DistributedDataParallel(Tagger())
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(2000):
        words, tags = torch.randint(0, 500, (16, 12)), torch.randint(0, 9, (16, 12))
        weights = torch.ones(16, 12)
        if (rank, step) == (1, 5):
            weights[3, 4] = float("inf")  # one annotator was never calibrated
        log.info("step %d", step)
        loss = weighted_loss(model(words), tags, weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
