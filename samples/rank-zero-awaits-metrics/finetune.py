"""Fine-tunes a classifier; between epochs rank 0 looks at what an evaluation job measured."""

import json
import logging
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

log = logging.getLogger("finetune")


def external_metrics(run: Path, epoch: int) -> dict[str, float]:
    """Read what the evaluation job writes next to the checkpoint, as soon as it is there."""
    metrics = run / f"metrics-{epoch}.json"
    while not metrics.exists():
        time.sleep(0.5)
    return json.loads(metrics.read_text())


def train_epoch(model: nn.Module, optimizer: torch.optim.Optimizer, epoch: int) -> None:
    criterion = nn.CrossEntropyLoss()
    for step in range(6):
        inputs, labels = torch.randn(32, 64), torch.randint(0, 10, (32,))
        loss = criterion(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("epoch %d step %d loss %.3f", epoch, step, loss.item())


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    torch.manual_seed(17 + rank)
    run = Path(tempfile.mkdtemp(prefix="run-"))
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    best = 0.0
    for epoch in range(20):
        train_epoch(model, optimizer, epoch)
        log.info("epoch %d done", epoch)
        if rank == 0:
            torch.save(model.module.state_dict(), run / f"epoch-{epoch}.pt")
            best = max(best, external_metrics(run, epoch)["accuracy"])
            log.info("best accuracy so far %.4f", best)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
