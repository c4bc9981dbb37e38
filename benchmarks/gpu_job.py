"""One rank of a job that hangs in a chosen way; started by ``gpu_scenarios.py``, not by hand.

The same program runs on NCCL with a GPU and on gloo without one: only the backend, the device and
what it takes to wait for a GPU differ.
"""

from __future__ import annotations

import datetime as dt
import os
import signal
import sys
import threading
import time
from pathlib import Path

import torch
import torch.distributed as dist

SCENARIO, BACKEND, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", 0) if BACKEND == "nccl" else torch.device("cpu")
FOREVER = 100_000


def ready() -> None:
    """Tell the parent process that the hang comes next."""
    (FOLDER / f"ready.{RANK}").touch()


def settle() -> None:
    """Wait until the device has done what it was given."""
    if BACKEND == "nccl":
        torch.cuda.synchronize()


def dump_when_asked() -> None:
    """Write the recorder's dump where torch would, once the file "dump" is there."""
    while not (FOLDER / "dump").exists():
        time.sleep(0.1)
    native = torch._C._distributed_c10d  # noqa: SLF001 - there is no other way to it
    take = native._dump_nccl_trace if BACKEND == "nccl" else native._dump_fr_trace  # noqa: SLF001
    (FOLDER / f"comm_lib_trace_rank_{RANK}").write_bytes(take())


def step(size: int = 1024, group: dist.ProcessGroup | None = None) -> None:
    """Do one training step's worth of talk."""
    dist.all_reduce(torch.ones(size, device=DEVICE), group=group)
    settle()


def evaluate_alone() -> None:
    """Do something long that the other ranks do not."""
    time.sleep(FOREVER)


def missing() -> None:
    """Rank 2 does something else before the step of the others."""
    ready()
    if RANK == 2:
        evaluate_alone()
    step()


def first() -> None:
    """Rank 3 never comes to the first collective, in which NCCL sets its communicator up."""
    ready()
    if RANK == 3:
        evaluate_alone()
    step()


def skipped() -> None:
    """Rank 1 leaves one step out, and is one behind from then on."""
    ready()
    for number in range(6):
        if not (RANK == 1 and number == 2):
            step()
    mine = torch.ones(8, device=DEVICE)
    dist.all_gather([torch.ones(8, device=DEVICE) for _ in range(WORLD)], mine)
    settle()
    time.sleep(FOREVER)


def size() -> None:
    """Rank 3 brings more elements than the others."""
    ready()
    step(1 << 20 if RANK == 3 else 1 << 10)
    time.sleep(FOREVER)


def opposite() -> None:
    """Half of the ranks take two groups in one order, the other half in the other."""
    groups = [dist.new_group(), dist.new_group()]
    for group in groups:
        step(group=group)
    ready()
    for group in groups if RANK % 2 else reversed(groups):
        step(group=group)


def stopped() -> None:
    """Rank 1 is stopped by a signal."""
    ready()
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    step()


def killed() -> None:
    """Rank 2 is killed."""
    ready()
    time.sleep(1)
    if RANK == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    step()
    time.sleep(FOREVER)


def main() -> None:
    """Set up, do a few steps that go well, then hang."""
    threading.Thread(target=dump_when_asked, daemon=True).start()
    if SCENARIO == "init":
        ready()
        if RANK == 3:
            evaluate_alone()
    if BACKEND == "nccl":
        torch.cuda.set_device(0)
    dist.init_process_group(BACKEND, timeout=dt.timedelta(hours=2))
    if SCENARIO not in {"init", "first"}:
        for _ in range(3):
            step()
    scenarios = (missing, first, skipped, size, opposite, stopped, killed)
    {run.__name__: run for run in scenarios}.get(SCENARIO, step)()


main()
