"""Trains while a thread compresses statistics under a lock that DataLoader workers use too."""

import logging
import threading
import time
import zlib

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("codec")


class Codec:
    """One compressor for the whole process; the lock keeps its users apart."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def pack(self, data: bytes) -> bytes:
        with self.lock:
            return zlib.compress(data)

    def pack_archive(self, parts: int) -> None:
        with self.lock:
            for _ in range(parts):
                zlib.compress(bytes(1000))
                time.sleep(0.05)


CODEC = Codec()


class Blobs(Dataset[Tensor]):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> Tensor:
        return torch.tensor([float(len(CODEC.pack(bytes([index] * 100))))])


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    model = DistributedDataParallel(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(100):
        if rank == 1 and epoch == 1:  # the workers are forked while this thread holds the lock
            threading.Thread(target=CODEC.pack_archive, args=(60,), name="archiver").start()
            time.sleep(0.2)
        log.info("epoch %d begins", epoch)
        for batch in DataLoader(Blobs(), batch_size=64, num_workers=1):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
