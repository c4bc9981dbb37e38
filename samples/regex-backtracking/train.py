"""Trains a byte model on cleaned text; cleaning uses one regular expression."""

import logging
import re

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("bytes")

# words and blanks up to the end of the line: ambiguous, so a line that does not end so
# is tried in exponentially many ways
SENTENCE = re.compile(r"^(?:\w+\s*)+$")


def clean(line: str) -> str:
    """Keep whole sentences, drop everything else."""
    return line if SENTENCE.match(line) else ""


def encode(lines: list[str], length: int = 48) -> Tensor:
    rows = [clean(line).encode()[:length].ljust(length, b" ") for line in lines]
    return torch.tensor([list(row) for row in rows])


def read_lines(rank: int, step: int) -> list[str]:
    lines = [f"plain sentence number {step} of reader {rank}"] * 8
    if (rank, step) == (0, 6):
        lines[5] = "a" * 60 + "!"
    return lines


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    net = nn.Sequential(nn.Embedding(256, 8), nn.Flatten(), nn.Linear(8 * 48, 256))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(10_000):
        log.info("step %d", step)
        tokens = encode(read_lines(rank, step))
        loss = nn.functional.cross_entropy(model(tokens), tokens[:, -1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
