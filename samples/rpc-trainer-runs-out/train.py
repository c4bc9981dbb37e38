"""A parameter server closes a round when every trainer has pushed; one trainer has fewer shards.

Trainer 2 is through with its data and goes to ``rpc.shutdown``. The push of trainer 1 waits in the
server for its push, which never comes.
"""

import os
import threading

import torch
from torch.distributed import rpc

SHARDS = {1: 4, 2: 2}
PER_SHARD = 10
WAIT = 7200


class Server:
    """Adds the gradients of all trainers up."""

    def __init__(self, trainers: int) -> None:
        """Begin the first round."""
        self.trainers = trainers
        self.closed = threading.Condition()
        self.round = 0
        self.pushed = 0
        self.weights = torch.zeros(8)

    def push(self, gradient: torch.Tensor) -> torch.Tensor:
        """Take a gradient; return the weights when the round is closed."""
        with self.closed:
            mine = self.round
            self.weights -= 0.1 * gradient
            self.pushed += 1
            if self.pushed == self.trainers:
                self.pushed = 0
                self.round += 1
                self.closed.notify_all()
            else:
                self.closed.wait_for(lambda: self.round > mine)
            return self.weights.clone()


SERVERS: list[Server] = []


def push(gradient: torch.Tensor) -> torch.Tensor:
    """Push to the server of this process."""
    return SERVERS[0].push(gradient)


def train(rank: int) -> None:
    """Push a gradient for each sample of each shard."""
    weights = torch.zeros(8)
    for shard in range(SHARDS[rank]):
        for _ in range(PER_SHARD):
            gradient = weights - torch.randn(8)
            weights = rpc.rpc_sync("server", push, args=(gradient,), timeout=WAIT)
        if shard == SHARDS[2] - 1:
            print(f"trainer {rank}: {shard + 1} shards done", flush=True)


def main() -> None:
    """Serve or train."""
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if rank == 0:
        SERVERS.append(Server(world_size - 1))
        print("server: no shards done", flush=True)
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=8, rpc_timeout=WAIT)
    name = f"trainer{rank}" if rank else "server"
    rpc.init_rpc(name, rank=rank, world_size=world_size, rpc_backend_options=options)
    if rank:
        train(rank)
    rpc.shutdown()


if __name__ == "__main__":
    main()
