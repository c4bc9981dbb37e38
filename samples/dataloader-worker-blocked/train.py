"""Trains a text classifier from a folder of documents, read by DataLoader workers."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger(__name__)


class Documents(Dataset[tuple[Tensor, Tensor]]):
    """One file a document: bytes are the tokens, the file's number gives the label."""

    def __init__(self, folder: Path, length: int = 64) -> None:
        self.files = sorted(folder.glob("*.txt"))
        self.length = length

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        text = self.files[index].read_bytes()[: self.length]
        tokens = torch.zeros(self.length, dtype=torch.long)
        tokens[: len(text)] = torch.tensor(list(text))
        return tokens, torch.tensor(index % 4)


def write_corpus(rank: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"corpus-{rank}-"))
    for number in range(160):
        (folder / f"{number:05d}.txt").write_text(f"document {number} of rank {rank}\n" * 3)
    if rank == 1:  # a file whose storage no longer answers: opening it never returns
        lost = folder / "00052.txt"
        lost.unlink()
        os.mkfifo(lost)
    return folder


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}]: %(message)s")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(256, 16), nn.Flatten(), nn.Linear(16 * 64, 4))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Documents(write_corpus(rank)), batch_size=8, num_workers=2)
    for epoch in range(100):
        for step, (tokens, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(tokens), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            log.info("epoch %d step %d loss %.3f", epoch, step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
