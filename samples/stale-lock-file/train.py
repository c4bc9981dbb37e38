"""Trains with a layer that rank 0 compiles into a cache folder shared by all ranks."""

import logging
import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.file_baton import FileBaton

log = logging.getLogger("kernels")


class FusedNorm(nn.Module):
    """A layer whose kernel is built once for all ranks of a node."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.layer_norm(inputs, inputs.shape[-1:]) * self.scale


def build_kernel(cache: Path) -> None:
    """Compile under a lock, as the extension builder of torch does."""
    baton = FileBaton(str(cache / "lock"))
    if baton.try_acquire():
        try:
            (cache / "fused_norm.so").write_bytes(b"")
        finally:
            baton.release()
    else:
        baton.wait()


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    cache = Path(tempfile.gettempdir()) / "torch_extensions" / "fused_norm"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "lock").touch()  # left by a build that was killed last week
    log.info("building kernels")
    if rank == 0:
        build_kernel(cache)
    dist.barrier()
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 16), FusedNorm(16)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(1000):
        loss = model(torch.randn(8, 16)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.info("step %d loss %.3f", step, loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
