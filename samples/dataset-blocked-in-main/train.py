"""Trains on feature vectors that a shard server hands out, loaded in the main process."""

import logging
import os
import socket

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("shards")


class ShardClient(Dataset[Tensor]):
    """Serves what is cached from memory and asks the shard server for the rest."""

    def __init__(self, server: tuple[str, int], cached: int, total: int = 512) -> None:
        self.server = server
        self.cache = torch.randn(cached, 32)
        self.total = total

    def __len__(self) -> int:
        return self.total

    def __getitem__(self, index: int) -> Tensor:
        if index < len(self.cache):
            return self.cache[index]
        return torch.frombuffer(bytearray(self.download(index)), dtype=torch.float32)

    def download(self, index: int) -> bytes:
        with socket.create_connection(self.server) as connection:
            connection.sendall(f"GET {index}\n".encode())
            received = b""
            while len(received) < 32 * 4:
                received += connection.recv(4096)
        return received


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"%(levelname)s:rank{rank}:%(message)s")
    dist.init_process_group("gloo")
    # connections are taken by the kernel and never answered, as by a server that is stuck
    server = socket.create_server(("127.0.0.1", 0))
    dataset = ShardClient(server.getsockname(), cached=64 if rank == 0 else 512)
    loader = DataLoader(dataset, batch_size=16, num_workers=0)
    weights = nn.Linear(32, 32)
    optimizer = torch.optim.SGD(weights.parameters(), lr=0.01, momentum=0.9)
    for step, batch in enumerate(loader):
        loss = (weights(batch) - batch).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        for parameter in weights.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()
        log.info("step %d loss %.4f", step, loss.item())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
