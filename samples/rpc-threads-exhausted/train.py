"""Two halves of a model, which ask each other for activations by RPC, with one thread each."""

import logging
import os

import torch
import torch.distributed.rpc as rpc
from torch import Tensor

log = logging.getLogger("halves")


def half(rank: int) -> str:
    return f"half{rank}"


def embed(x: Tensor) -> Tensor:
    return torch.tanh(x)


def mix(x: Tensor, asking: str) -> Tensor:
    """Called remotely; asks back, and keeps the only thread that answers for so long."""
    return 0.5 * (x + rpc.rpc_sync(asking, embed, args=(x,)))


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    options = rpc.TensorPipeRpcBackendOptions(num_worker_threads=1, rpc_timeout=6000)
    rpc.init_rpc(half(rank), rank=rank, world_size=2, rpc_backend_options=options)
    x = torch.randn(8)
    for step in range(100_000):
        if step % 100 == 0:
            log.info("step %d", step)
        x = rpc.rpc_sync(half(1 - rank), mix, args=(x, half(rank)))
    rpc.shutdown()


if __name__ == "__main__":
    main()
