"""Pre-trains a small language model; token statistics come from a service, with retries."""

import logging
import os
import time
import urllib.error
import urllib.request

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SERVICE = os.environ.get("STATS_URL", "http://127.0.0.1:9")  # nobody listens on "discard"
log = logging.getLogger("pretrain")


class TinyLM(nn.Module):
    def __init__(self, vocabulary: int = 256, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.embed(tokens))[0])


class TokenStats:
    """Asks the statistics service, again and again if need be."""

    def __init__(self, url: str) -> None:
        self.url = url

    def refresh(self, step: int) -> bytes:
        attempt = 0
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/stats?step={step}", timeout=5) as answer:
                    return answer.read()
            except urllib.error.URLError as error:
                attempt += 1
                log.warning("statistics: attempt %d failed: %s", attempt, error.reason)
                time.sleep(min(30.0, 2.0**attempt))


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"rank {rank} | %(levelname)s | %(message)s")
    torch.manual_seed(rank)
    model = DistributedDataParallel(TinyLM())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    stats = TokenStats(SERVICE)
    for step in range(1000):
        tokens = torch.randint(0, 256, (8, 33))
        log.info("step %d starts", step)
        if rank == 3 and step % 5 == 4:
            stats.refresh(step)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
