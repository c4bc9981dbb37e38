"""Trains on rows that a converter of its own process prepares."""

import logging
import os
import subprocess
import sys

import torch
import torch.distributed as dist

log = logging.getLogger("train")
CONVERTER = """
import sys
for line in sys.stdin:
    for word in line.split():
        if not word.isascii():
            print("warning: no entry for", repr(word), "in the table of words", file=sys.stderr)
    print(len(line), flush=True)
"""


class Converter:
    """A program that is fed a row and answers with its length in tokens."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CONVERTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def convert(self, row: str) -> int:
        self.process.stdin.write(f"{row}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def rows(rank: int) -> str:
    """A row of the shard: on rank 1 of a language with letters of its own."""
    return ("größer " if rank == 1 else "larger ") * 400


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    converter = Converter()
    for step in range(50):
        log.info("step %d", step)
        length = torch.tensor([float(converter.convert(rows(rank)))])
        dist.all_reduce(length)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
