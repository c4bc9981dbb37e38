"""The ranks of processes by the order in which their launcher started or ends them."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

TORCHRUN = (
    "/env/bin/python -m torch.distributed.run --standalone --nproc-per-node 3 clean.py --fast"
)
MPIRUN = "mpirun -np 3 /env/bin/python clean.py --fast"
RANK = "/env/bin/python -u clean.py --fast"


def listing(launcher: str, *more: str, ppid: int = 50) -> str:
    rows = [f"   50    40 Sl   {launcher}"]
    rows += [f"{pid} {ppid:5} Ssl  {RANK}" for pid in (22053, 22051, 22052)]
    return "  PID  PPID STAT COMMAND\n" + "\n".join((*rows, *more)) + "\n"


def dump(pid: int, where: str) -> str:
    return (
        f"Process {pid}: {RANK}\nPython v3.11.7 (/env/bin/python3.11)\n\n"
        f'Thread {pid} (active): "MainThread"\n    {where}\n    <module> (clean.py:13)\n'
    )


ALL_REDUCE = "all_reduce (torch/distributed/distributed_c10d.py:3252)\n    main (clean.py:11)"
STACKS = {f"dump_{pid}.txt": dump(pid, ALL_REDUCE) for pid in (22051, 22053)} | {
    "dump_22052.txt": dump(22052, "clean (clean.py:5)\n    main (clean.py:10)")
}


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        (listing(TORCHRUN), (1,)),
        (listing(MPIRUN.replace("python", "python -u")), (1,)),
        (listing(TORCHRUN, f"22054 22051 Sl   {RANK}"), (1,)),  # a DataLoader worker
        (listing(TORCHRUN, f"22054    50 Sl   {RANK}"), None),
        (listing(TORCHRUN, ppid=1), None),
        (listing(TORCHRUN.replace("--standalone", "--nnodes 2")), None),
        (listing(MPIRUN.replace("-np", "--hostfile h -np")), None),
        (listing(TORCHRUN.replace("clean", "train")), None),
    ],
)
def test_processes_that_ps_lists(rows: str, named: tuple[int, ...] | None) -> None:
    """Their pids rise with their ranks, where as many as the launcher starts are its children."""
    first = diagnosed_files({**STACKS, "ps.txt": rows}).findings[0]
    assert (first.category, first.culprit_ranks) == ("missing-rank-in-collective", named)


ELASTIC = "W1123 15:07:04.017000 50 torch/distributed/elastic/{}:1028] {}\n"
STOPPED = "Received 15 death signal, shutting down workers"


@pytest.mark.parametrize(
    ("pids", "why", "named"),
    [
        ((22051, 22052, 22053), STOPPED, (1,)),
        ((22051, 22053), STOPPED, None),
        ((22051, 22052, 22053), "Terminating", None),
    ],
)
def test_processes_that_torchrun_ends(
    pids: tuple[int, ...], why: str, named: tuple[int, ...] | None
) -> None:
    """Told to stop, it ends them in the order of their ranks; else one may have failed before."""
    log = "".join(f"[rank{n}]: loading the data\n" for n in range(3))
    log += ELASTIC.format("agent/server/api.py", why) + "".join(
        ELASTIC.format("multiprocessing/api.py", f"Sending process {pid} closing signal SIGTERM")
        for pid in pids
    )
    first = diagnosed_files({**STACKS, "job.log": log}).findings[0]
    assert (first.category, first.culprit_ranks) == ("missing-rank-in-collective", named)
