"""The ranks of a job from any of its processes: torchrun, shells, launchers of one's own."""

from __future__ import annotations

import pytest
from fake_proc import FakeProc, elastic
from job_docs import PY, ranks, roles, torchrun

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Role, Trust
from whyhang.collectors.live.job.find import find_job


@pytest.mark.parametrize("pid", [100, 101, 102, 151, 152])
def test_torchrun_from_any_of_its_processes(fake: FakeProc, pid: int) -> None:
    """The agent, a rank and a DataLoader worker all lead to the same whole job."""
    torchrun(fake, 100, 29500)
    torchrun(fake, 200, 29501)
    job = find_job(fake.host(), pid)
    assert roles(job) == {
        101: Role.RANK,
        102: Role.RANK,
        151: Role.DATALOADER_WORKER,
        152: Role.DATALOADER_WORKER,
        100: Role.LAUNCHER,
    }
    assert ranks(job) == {101: 0, 102: 1}
    assert {m.pid: m.owner for m in job.members if m.owner} == {151: 101, 152: 102}
    assert (job.launcher, job.world_size) == ("torchrun", 2)


def test_a_shell_above_two_jobs_needs_one_of_them_named(fake: FakeProc) -> None:
    """A pid that stands above several jobs is refused, with the pids to choose from."""
    torchrun(fake, 100, 29500)
    torchrun(fake, 200, 29501)
    with pytest.raises(TargetError, match="2 jobs below process 10") as caught:
        find_job(fake.host(), 10)
    assert "whyhang 101" in caught.value.remedy
    assert "whyhang 201" in caught.value.remedy


def test_shell_above_one_job_is_enough(fake: FakeProc) -> None:
    """The terminal in which a job was started leads to the job."""
    torchrun(fake, 100, 29500)
    assert ranks(find_job(fake.host(), 10)) == {101: 0, 102: 1}


def test_two_agents_of_one_job_on_one_host(fake: FakeProc) -> None:
    """Two launchers that name the same rendezvous are one job."""
    for node, pid in ((0, 100), (1, 200)):
        fake.add(pid, 10, f"{PY} -m torch.distributed.run --nnodes 2 t.py", {})
        for local in range(2):
            rank = 2 * node + local
            env = {**elastic(rank, 4), "LOCAL_RANK": local, "GROUP_RANK": node}
            fake.add(pid + 1 + local, pid, f"{PY} t.py", env)
    job = find_job(fake.host(), 202)
    assert ranks(job) == {101: 0, 102: 1, 201: 2, 202: 3}
    assert {m.pid for m in job.members if m.role is Role.LAUNCHER} == {100, 200}


def test_loopback_address_in_another_container_is_another_job(fake: FakeProc) -> None:
    """Two containers may both use 127.0.0.1:29500; their network namespaces tell them apart."""
    torchrun(fake, 100, 29500)
    torchrun(fake, 200, 29500)
    for pid in (200, 201, 202, 251, 252):
        link = fake.folder / str(pid) / "ns" / "net"
        link.unlink()
        link.symlink_to("net:[2]")
    assert ranks(find_job(fake.host(), 101)) == {101: 0, 102: 1}


def test_leftovers_of_an_earlier_start_are_named_and_left_out(fake: FakeProc) -> None:
    """Ranks that lost their launcher and claim the same rendezvous do not mix with the new ones."""
    torchrun(fake, 100, 29500)
    fake.add(60, 1, f"{PY} t.py", elastic(1, 2))
    job = find_job(fake.host(), 100)
    assert ranks(job) == {101: 0, 102: 1}
    assert [gap.who.pid for gap in job.left_out] == [60]


@pytest.mark.parametrize(("size", "left_out"), [(2, {60, 61, 62}), (4, {60, 61})])
def test_orphans_of_a_larger_job_are_no_ranks_of_a_complete_one(
    fake: FakeProc, size: int, left_out: set[int]
) -> None:
    """A launcher that has started all ranks it counts runs the whole job."""
    torchrun(fake, 100, 29500, WORLD_SIZE=size)
    for rank in range(3):
        fake.add(60 + rank, 1, f"{PY} old.py", elastic(rank, 4))
    job = find_job(fake.host(), 100)
    assert {gap.who.pid for gap in job.left_out} == left_out
    assert ranks(job) == {101: 0, 102: 1} | ({62: 2} if size == 4 else {})


def test_shell_loop_needs_no_launcher(fake: FakeProc) -> None:
    """Siblings with the same address and port are one job, whatever else runs in the session."""
    for rank in range(3):
        env = {"RANK": rank, "WORLD_SIZE": 3, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}
        fake.add(20 + rank, 10, f"{PY} t.py", env)
        fake.add(30 + rank, 10, f"{PY} t.py", {**env, "MASTER_PORT": 2})
    job = find_job(fake.host(), 21)
    assert ranks(job) == {20: 0, 21: 1, 22: 2}
    assert job.launcher == "env"


def test_shell_loop_without_an_address(fake: FakeProc) -> None:
    """Where the script sets the address itself, session, script and start time have to do."""
    for start in (0, 1000):
        for rank in range(2):
            env = {"RANK": rank, "WORLD_SIZE": 2}
            fake.add(20 + start + rank, 10, f"{PY} t.py", env)
    fake.add(90, 10, f"{PY} other.py", {"RANK": 0, "WORLD_SIZE": 2})
    fake.add(91, 1, f"{PY} t.py", {"RANK": 1, "WORLD_SIZE": 2}, session=5)
    assert ranks(find_job(fake.host(), 20)) == {20: 0, 21: 1}
    assert ranks(find_job(fake.host(), 1021)) == {1020: 0, 1021: 1}


def test_one_rank_started_twice_is_seen_twice(fake: FakeProc) -> None:
    """Two processes that claim one rank of one rendezvous are both kept: that is a finding."""
    env = {"WORLD_SIZE": 2, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}
    for pid, rank in ((20, 0), (21, 1), (22, 1)):
        fake.add(pid, 10, f"{PY} t.py", {**env, "RANK": rank})
    assert ranks(find_job(fake.host(), 20)) == {20: 0, 21: 1, 22: 1}


def test_wrapper_script_between_launcher_and_rank(fake: FakeProc) -> None:
    """The rank is the Python process, not the shell around it that has the same environment."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun --no-python wrap.sh", {})
    for rank in range(2):
        fake.add(110 + rank, 100, "/bin/bash wrap.sh", elastic(rank, 2))
        fake.add(120 + rank, 110 + rank, f"{PY} t.py", elastic(rank, 2))
        fake.add(130 + rank, 120 + rank, "/usr/bin/nvidia-smi dmon", elastic(rank, 2))
    job = find_job(fake.host(), 110)
    assert ranks(job) == {120: 0, 121: 1}
    assert roles(job)[130] is Role.OTHER
    assert job.launcher == "torchrun"


def test_kubernetes_pod_rank_does_not_make_the_launcher_a_rank(fake: FakeProc) -> None:
    """An operator gives RANK, the number of the pod, to the launcher and the shell above it."""
    pod = {"RANK": 1, "WORLD_SIZE": 2, "MASTER_ADDR": "job-0", "MASTER_PORT": 1, "PET_NNODES": 2}
    fake.add(99, 10, "/bin/sh -c torchrun", pod)
    fake.add(100, 99, f"{PY} /usr/bin/torchrun t.py", pod)
    for local in range(2):
        env = {**pod, **elastic(2 + local, 4), "LOCAL_RANK": local, "MASTER_ADDR": "job-0"}
        fake.add(101 + local, 100, f"{PY} t.py", env)
    for pid in (99, 100, 102):
        job = find_job(fake.host(), pid)
        assert ranks(job) == {101: 2, 102: 3}
        assert roles(job)[100] is Role.LAUNCHER


def test_pod_rank_does_not_make_an_unknown_launcher_a_rank(fake: FakeProc) -> None:
    """The same for a launcher that nobody knows by name: its children have a LOCAL_RANK, not it."""
    pod = {"RANK": 0, "WORLD_SIZE": 2, "MASTER_ADDR": "job-0", "MASTER_PORT": 1}
    fake.add(100, 10, f"{PY} start.py", pod)
    for local in range(2):
        env = {**pod, **elastic(local, 4), "MASTER_ADDR": "job-0"}
        fake.add(101 + local, 100, f"{PY} t.py", env)
    for pid in (100, 102):
        assert ranks(find_job(fake.host(), pid)) == {101: 0, 102: 1}


def test_deepspeed_has_two_launchers(fake: FakeProc) -> None:
    """The runner starts a launcher on each host; both are shown."""
    fake.add(100, 10, f"{PY} /venv/bin/deepspeed t.py", {})
    fake.add(101, 100, f"{PY} -u -m deepspeed.launcher.launch t.py", {})
    env = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "h", "MASTER_PORT": 1}
    fake.add(102, 101, f"{PY} -u t.py --local_rank=0", env)
    job = find_job(fake.host(), 100)
    assert roles(job) == {102: Role.RANK, 101: Role.LAUNCHER, 100: Role.LAUNCHER}
    assert job.launcher == "deepspeed"


def test_own_launcher_in_python(fake: FakeProc) -> None:
    """A program that starts ranks with RANK in their environment is their launcher."""
    fake.add(100, 10, f"{PY} my_launcher.py", {})
    env = {"WORLD_SIZE": 2, "MASTER_ADDR": "h", "MASTER_PORT": 1}
    for rank in range(2):
        fake.add(101 + rank, 100, f"{PY} t.py", {**env, "RANK": rank})
    job = find_job(fake.host(), 100)
    assert ranks(job) == {101: 0, 102: 1}
    assert roles(job)[100] is Role.LAUNCHER
    assert job.launcher == "python"


def test_lightning_counts_its_main_script_as_rank_zero(fake: FakeProc) -> None:
    """Lightning's first process has no rank in its environment and is local rank 0."""
    fake.add(100, 10, f"{PY} fit.py", {})
    for local in (1, 2):
        env: dict[str, object] = {"LOCAL_RANK": local, "NODE_RANK": 0, "WORLD_SIZE": 3}
        env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
        fake.add(100 + local, 100, f"{PY} fit.py", env)
    for pid in (100, 102):
        job = find_job(fake.host(), pid)
        assert ranks(job) == {100: 0, 101: 1, 102: 2}
        assert roles(job)[100] is Role.RANK
        assert job.members[0].trust is Trust.INFERRED
