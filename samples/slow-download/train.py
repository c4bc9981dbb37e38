"""Rank 0 downloads the weights slowly, piece by piece, while the others wait in the barrier."""

import logging
import subprocess
import sys
import urllib.request
from pathlib import Path

import torch
import torch.distributed as dist

PIECE = 1 << 16
SERVER = Path(__file__).with_name("serve.py")
log = logging.getLogger("weights")


def download(url: str) -> int:
    """Read the whole answer and return how many bytes it had."""
    size = 0
    with urllib.request.urlopen(url) as answer:
        while piece := answer.read(PIECE):
            size += len(piece)
    return size


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    value = torch.ones(1)
    dist.all_reduce(value)
    log.info("the weights come first")
    if rank == 0:
        command = [sys.executable, str(SERVER), str(PIECE)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            port = int(server.stdout.readline()) if server.stdout else 0
            log.info("has %d bytes", download(f"http://127.0.0.1:{port}/weights.bin"))
            server.terminate()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
