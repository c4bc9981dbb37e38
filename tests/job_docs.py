"""Processes of jobs for tests of how its ranks are found."""

from __future__ import annotations

from fake_proc import FakeProc, elastic

from whyhang.analyzer.facts import Role
from whyhang.collectors.live.job.members import HostJob

PY = "/usr/bin/python3"
SPAWN = (PY, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)", "--fork")
TRACKER = (PY, "-c", "from multiprocessing.resource_tracker import main;main(3)")


def ranks(job: HostJob) -> dict[int, int | None]:
    """Give the rank of each rank process by pid."""
    return {m.pid: m.rank for m in job.members if m.role is Role.RANK}


def roles(job: HostJob) -> dict[int, Role]:
    """Give the role of every process."""
    return {m.pid: m.role for m in job.members}


def torchrun(fake: FakeProc, pid: int, port: int, world: int = 2, **more: object) -> None:
    """Add an agent, its ranks, and one DataLoader worker below each."""
    fake.add(pid, 10, f"{PY} /venv/bin/torchrun --nproc-per-node 2 t.py", {}, comm="pt_elastic")
    for rank in range(world):
        env = elastic(rank, world, port, **more)
        fake.add(pid + 1 + rank, pid, f"{PY} t.py", env)
        fake.add(pid + 51 + rank, pid + 1 + rank, f"{PY} t.py", env, comm="pt_data_worker")
