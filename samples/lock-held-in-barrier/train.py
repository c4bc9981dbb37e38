"""Builds a vocabulary once, under a lock that the ranks of a host share."""

import fcntl
import json
import logging
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist

log = logging.getLogger("vocabulary")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cached_vocabulary(cache: Path, texts: list[str], rank: int) -> dict[str, int]:
    cached = cache / "vocabulary.json"
    log.info("reading the vocabulary")
    if rank == 0:
        with locked(cache / ".lock"):
            counts = Counter(word for text in texts for word in text.split())
            cached.write_text(json.dumps(counts))
            dist.barrier()  # so that nobody reads half a file
    else:
        while not cached.exists():
            time.sleep(0.1)
        with locked(cache / ".lock"):
            dist.barrier()
    return json.loads(cached.read_text())


def main() -> None:
    rank = int(os.environ["RANK"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    dist.init_process_group("gloo")
    cache = Path(tempfile.gettempdir()) / f"vocabulary-{os.environ['MASTER_PORT']}"
    cache.mkdir(exist_ok=True)
    vocabulary = cached_vocabulary(cache, ["the cat sat on the mat"] * 50, rank)
    log.info("%d words", len(vocabulary))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
