"""Real jobs, started in each of the ways people start them, and found from any of their pids."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from whyhang.analyzer.facts import (
    Excerpt,
    Fact,
    Process,
    Role,
    Setting,
    StackDump,
    Trust,
    WorldSize,
)
from whyhang.collectors import READERS
from whyhang.collectors.files.bundle import documents_of, write_bundle
from whyhang.collectors.files.folder import read, read_documents
from whyhang.collectors.live.capture import Capture
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

TRAIN = """
import datetime, os, sys, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Slow(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        if int(os.environ["RANK"]) == 1 and index > 20:
            time.sleep(100000)
        return torch.ones(4)

def train(workers):
    dist.init_process_group("gloo", timeout=datetime.timedelta(hours=1))
    if not workers:
        time.sleep(100000 if dist.get_rank() == 1 else 0)
        dist.all_reduce(torch.ones(4))
    for batch in DataLoader(Slow(), batch_size=2, num_workers=workers):
        dist.all_reduce(batch)

def spawned(index, count, port):
    os.environ.update(RANK=str(index), WORLD_SIZE=str(count))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    train(0)

if __name__ == "__main__":
    if sys.argv[1] == "spawn":
        mp.spawn(spawned, args=(3, int(sys.argv[2])), nprocs=3)
    else:
        train(int(sys.argv[1]))
"""

MPI = """
import ctypes, os, time
mpi = ctypes.CDLL("libmpi.so.40")
mpi.MPI_Init(None, None)
if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
    time.sleep(100000)
mpi.MPI_Barrier(ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
"""


def free_port() -> int:
    """Find a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def job(
    command: list[str], ready: Callable[[HostJob], bool], limit: float = 120.0
) -> Iterator[int]:
    """Start a job in a session of its own, wait until it stands as it should, end all of it."""
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as launcher:
        try:
            until = time.monotonic() + limit
            while not _ready(launcher.pid, ready):
                assert launcher.poll() is None, "the job ended by itself"
                assert time.monotonic() < until, "the job did not get going"
                time.sleep(0.5)
            time.sleep(1)
            yield launcher.pid
        finally:
            _end(launcher.pid)


def _ready(pid: int, ready: Callable[[HostJob], bool]) -> bool:
    try:
        return ready(find_job(Host(Proc()), pid))
    except Exception:  # noqa: BLE001 - while it starts, there may be nothing to find
        return False


def _end(launcher: int) -> None:
    host = Host(Proc())
    for pid in (launcher, *host.descendants(launcher)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def has(ranks: int, workers: int = 0) -> Callable[[HostJob], bool]:
    """Say when a job is complete: so many ranks and workers, and nobody still importing."""

    def complete(job: HostJob) -> bool:
        roles = [member.role for member in job.members]
        here = (roles.count(Role.RANK), roles.count(Role.DATALOADER_WORKER))
        threads = [len(Proc().thread_ids(m.pid)) for m in job.members if m.role is Role.RANK]
        return here == (ranks, workers) and all(count > 2 for count in threads)

    return complete


def torchrun(script: Path, ranks: int, workers: int) -> list[str]:
    """Give the command that starts the script under torchrun."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks)]
    return [*launch, "--master-port", str(free_port()), str(script), str(workers)]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Write the training script."""
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def facts(taken: Capture) -> list[Fact]:
    """Read what was taken, the way the command line does."""
    return list(read_documents(documents_of(taken.bundle()), readers=READERS))


def of_job(taken: Capture) -> dict[int, int | None]:
    """Give the rank of each rank process."""
    return {m.pid: m.rank for m in taken.job.members if m.role is Role.RANK}


def look(pid: int, looks: int = 1) -> Capture:
    """Look at a job without waiting between looks."""
    return Capture(pid, Options(looks=looks, interval=0.2), lambda _: None).take()


def test_two_torchrun_jobs_side_by_side(script: Path, tmp_path: Path) -> None:
    """From launcher, rank and worker the same four ranks are found, none of the other job."""
    both = has(4, 4), has(2, 2)
    with job(torchrun(script, 4, 1), both[0]) as one, job(torchrun(script, 2, 1), both[1]) as other:
        first = look(one, looks=2)
        members = {m.pid: m for m in first.job.members}
        assert sorted(of_job(first).values()) == [0, 1, 2, 3]
        assert len(members) == 9
        worker = next(m for m in members.values() if m.role is Role.DATALOADER_WORKER)
        for pid in (worker.pid, worker.owner or 0):
            assert of_job(look(pid)) == of_job(first)
        assert not set(members) & {m.pid for m in look(other).job.members}
        live = facts(first)
        write_bundle(first.bundle(), tmp_path / "kept.tar.zst")
    assert list(read([tmp_path / "kept.tar.zst"], readers=READERS)) == live
    _check_torchrun(live)


def _check_torchrun(live: list[Fact]) -> None:
    dumps = [fact for fact in live if isinstance(fact, StackDump)]
    assert len(dumps) == 18
    tops = {
        dump.who.rank: dump.threads[0].frames
        for dump in dumps
        if dump.look == 1 and dump.who.rank is not None and dump.who.trust is Trust.ENVIRONMENT
    }
    assert {rank for rank, frames in tops.items() if _inside(frames, "all_reduce")} == {0, 2, 3}
    assert _inside(tops[1], "_next_data")
    settings = {fact.name: fact.value for fact in live if isinstance(fact, Setting)}
    assert (settings["launcher"], settings["backend"]) == ("torchrun", "gloo")
    assert settings["torch"]
    assert [fact.size for fact in live if isinstance(fact, WorldSize)] == [4]
    shown = "\n".join(line for e in live if isinstance(e, Excerpt) for line in e.lines)
    assert "dist.all_reduce(batch)" in shown
    assert "time.sleep(100000)" in shown
    states = [p for p in live if isinstance(p, Process) and p.role is Role.RANK]
    assert {p.state for p in states} == {"S"}
    assert all(p.before and p.after and p.descriptors for p in states)


def _inside(frames: object, name: str) -> bool:
    return name in str(frames)


def test_stopped_rank_of_a_real_job(script: Path) -> None:
    """A rank under SIGSTOP is read, said to be stopped, and left as it was."""
    with job(torchrun(script, 3, 0), has(3)) as launcher:
        taken = look(launcher)
        victim = next(pid for pid, rank in of_job(taken).items() if rank == 2)
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.1)
        all_facts = facts(look(launcher))
        stat = Proc().stat(victim)
        assert stat is not None
        assert stat.state == "T"
    states = {
        p.who.rank: p.state for p in all_facts if isinstance(p, Process) and p.role is Role.RANK
    }
    assert states == {0: "S", 1: "S", 2: "T"}
    assert {d.who.rank for d in all_facts if isinstance(d, StackDump)} >= {0, 1, 2}


def test_mp_spawn(script: Path) -> None:
    """Spawned ranks get their number from their stacks, from the parent as from a child."""
    with job([sys.executable, str(script), "spawn", str(free_port())], _spawned) as parent:
        taken = look(parent)
        assert sorted(rank for rank in of_job(taken).values() if rank is not None) == [0, 1, 2]
        child = next(iter(of_job(taken)))
        assert of_job(look(child)) == of_job(taken)
        all_facts = facts(taken)
    assert (taken.job.launcher, taken.job.world_size) == ("mp.spawn", 3)
    asleep = [d for d in all_facts if isinstance(d, StackDump) and d.who.rank == 1]
    assert "all_reduce" not in str(asleep[0].threads)


def _spawned(job: HostJob) -> bool:
    children = [m for m in job.members if m.role is Role.DATALOADER_WORKER]
    threads = [len(Proc().thread_ids(m.pid)) for m in children]
    return len(children) == 3 and all(count > 2 for count in threads)


def test_shell_loop(script: Path) -> None:
    """Ranks that a shell started one by one are one job by their address and port."""
    port = free_port()
    loop = (
        f"for r in 0 1 2; do RANK=$r WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT={port} "
        f"{sys.executable} {script} 0 & done; wait"
    )
    with job(["/bin/sh", "-c", loop], has(3)) as shell:
        taken = look(shell)
        assert sorted(rank for rank in of_job(taken).values() if rank is not None) == [0, 1, 2]
        assert of_job(look(next(iter(of_job(taken))))) == of_job(taken)


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="there is no mpirun")
def test_mpirun(tmp_path: Path) -> None:
    """Ranks of Open MPI are found from mpirun, which itself has no Python stack to miss."""
    script = tmp_path / "mpi.py"
    script.write_text(MPI)
    command = ["mpirun", "--oversubscribe", "-np", "3", sys.executable, str(script)]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    with job(command, has(3)) as launcher:
        taken = look(launcher)
        all_facts = facts(taken)
    assert sorted(rank for rank in of_job(taken).values() if rank is not None) == [0, 1, 2]
    assert taken.job.launcher == "mpirun"
    assert len([fact for fact in all_facts if isinstance(fact, StackDump)]) == 3
    assert not taken.bundle().files.get("gaps.json")


SOLVER = """
#include <mpi.h>
static void exchange(double *halo, int rank) {
    if (rank == 2) MPI_Recv(halo, 8, MPI_DOUBLE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
static double residual(double x) {
    double sum;
    MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sum;
}
int main(int argc, char **argv) {
    int rank; double halo[8];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    exchange(halo, rank);
    residual(1.0);
    return MPI_Finalize();
}
"""


@pytest.mark.skipif(
    not all(map(shutil.which, ("mpirun", "mpicc", "gdb"))), reason="needs mpirun, mpicc and gdb"
)
def test_mpi_ranks_in_c(tmp_path: Path) -> None:
    """Ranks without Python are found from mpirun and read by gdb, with their calls and lines."""
    (tmp_path / "solver.c").write_text(SOLVER)
    program = str(tmp_path / "solver")
    subprocess.run(["mpicc", "-g", "-o", program, str(tmp_path / "solver.c")], check=True)
    command = ["mpirun", "--oversubscribe", "-np", "3", program]
    if os.geteuid() == 0:
        command.insert(1, "--allow-run-as-root")
    with job(command, has(3)) as launcher:
        time.sleep(2)
        all_facts = facts(look(launcher))
    stacks = {
        fact.who.rank: [f.function for thread in fact.threads for f in thread.frames]
        for fact in all_facts
        if isinstance(fact, StackDump) and fact.tool == "gdb"
    }
    assert "exchange" in stacks[2]
    assert all("residual" in stacks[rank] and "exchange" not in stacks[rank] for rank in (0, 1))
