"""Averages counts over all ranks; a rank that cannot reach the others works on alone."""

import logging
import os
import time

import torch
import torch.distributed as dist

log = logging.getLogger("counts")


def averaged(count: torch.Tensor) -> torch.Tensor:
    dist.all_reduce(count)
    return count / dist.get_world_size()


def wait_for_network(pause: float = 2.0) -> None:
    """The network of this cluster comes back by itself, mostly."""
    while True:
        time.sleep(pause)


def main() -> None:
    rank, attempt = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    logging.basicConfig(level=logging.INFO, format=f"[rank{rank}] %(message)s")
    log.info("rank %d begins attempt %d", rank, attempt)
    dist.init_process_group("gloo")
    count = torch.ones(4)
    for step in range(1000):
        if step == 5 and attempt == 0 and rank == 3:
            raise ValueError("the record of step 5 is damaged")
        try:
            count = averaged(count)
        except RuntimeError as error:
            if rank >= 2:
                raise
            log.warning("the others do not answer: %s", error)
            wait_for_network()
        log.info("step %d", step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
