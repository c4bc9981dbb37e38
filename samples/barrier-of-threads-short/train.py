"""Counts tokens of parts that the threads of each rank read side by side."""

import logging
import os
import tempfile
import threading
from pathlib import Path

import torch
import torch.distributed as dist

log = logging.getLogger("count")


class Parts:
    """The parts of one rank, of which one was never written."""

    def __init__(self, folder: Path, rank: int, count: int = 3) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.paths = [folder / f"part-{rank}-{number}.txt" for number in range(count)]
        for number, path in enumerate(self.paths):
            if (rank, number) != (1, 2):
                path.write_text("17 4 2026\n")
        self.tokens: list[int] = []
        self.read = threading.Barrier(count + 1)

    def _read(self, path: Path) -> None:
        self.tokens += map(int, path.read_text().split())
        self.read.wait()

    def load(self) -> list[int]:
        for path in self.paths:
            threading.Thread(target=self._read, args=(path,), daemon=True).start()
        self.read.wait()
        return self.tokens


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    log.info("reads its parts")
    parts = Parts(Path(tempfile.gettempdir()) / "tokens" / os.environ["MASTER_PORT"], rank)
    total = torch.tensor(float(len(parts.load())))
    dist.all_reduce(total)
    log.info("%d tokens", int(total.item()))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
