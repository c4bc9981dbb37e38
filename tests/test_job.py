"""Which processes belong to a job, for each way of starting one; never one of another job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_proc import FakeProc, elastic

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Role, Trust
from whyhang.collectors.live import gdb
from whyhang.collectors.live.frame_variables import Numbers, read_numbers
from whyhang.collectors.live.job.by_stacks import number, settle
from whyhang.collectors.live.job.exits import ended
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import Job

PY = "/usr/bin/python3"
SPAWN = (PY, "-c", "from multiprocessing.spawn import spawn_main; spawn_main(7)", "--fork")
TRACKER = (PY, "-c", "from multiprocessing.resource_tracker import main;main(3)")


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    """Make a /proc with an init and a shell."""
    made = FakeProc(tmp_path)
    made.add(1, 0, "/sbin/init", {})
    made.add(2, 0, "", {}, comm="kthreadd", kernel=True)
    made.add(10, 1, "/bin/bash", {})
    return made


def ranks(job: Job) -> dict[int, int | None]:
    """Give the rank of each rank process by pid."""
    return {m.pid: m.rank for m in job.members if m.role is Role.RANK}


def roles(job: Job) -> dict[int, Role]:
    """Give the role of every process."""
    return {m.pid: m.role for m in job.members}


def torchrun(fake: FakeProc, pid: int, port: int, world: int = 2, **more: object) -> None:
    """Add an agent, its ranks, and one DataLoader worker below each."""
    fake.add(pid, 10, f"{PY} /venv/bin/torchrun --nproc-per-node 2 t.py", {}, comm="pt_elastic")
    for rank in range(world):
        env = elastic(rank, world, port, **more)
        fake.add(pid + 1 + rank, pid, f"{PY} t.py", env)
        fake.add(pid + 51 + rank, pid + 1 + rank, f"{PY} t.py", env, comm="pt_data_worker")


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


def test_shell_above_two_jobs_must_be_told_which(fake: FakeProc) -> None:
    """A pid that stands above several jobs is refused, with the pids to choose from."""
    torchrun(fake, 100, 29500)
    torchrun(fake, 200, 29501)
    with pytest.raises(TargetError, match="2 jobs below process 10") as told:
        find_job(fake.host(), 10)
    assert "whyhang 101" in told.value.remedy
    assert "whyhang 201" in told.value.remedy


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


def test_slurm_steps_of_one_allocation_are_two_jobs(fake: FakeProc) -> None:
    """The same Slurm job with another step is another job; the batch script is no rank."""
    batch: dict[str, object] = {
        "SLURM_JOB_ID": 7,
        "SLURM_PROCID": 0,
        "SLURM_NTASKS": 2,
        "SLURM_STEP_ID": "batch",
    }
    fake.add(50, 10, "/bin/bash job.sh", batch)
    fake.add(51, 50, "/usr/bin/srun python3 t.py", batch)
    for step, pid in ((0, 100), (1, 200)):
        fake.add(pid, 1, "slurmstepd: [7.0]", None, comm="slurmstepd")
        for task in range(2):
            env = {**batch, "SLURM_PROCID": task, "SLURM_LOCALID": task, "SLURM_STEP_ID": step}
            fake.add(pid + 1 + task, pid, f"{PY} t.py", env)
    job = find_job(fake.host(), 102)
    assert ranks(job) == {101: 0, 102: 1}
    assert roles(job)[100] is Role.LAUNCHER
    assert job.launcher == "slurm"


def test_torchrun_inside_slurm_goes_by_rank(fake: FakeProc) -> None:
    """SLURM_PROCID 0 of the node does not overrule what torchrun says."""
    slurm = {"SLURM_JOB_ID": 7, "SLURM_PROCID": 0, "SLURM_NTASKS": 1, "SLURM_STEP_ID": 0}
    fake.add(90, 1, "slurmstepd: [7.0]", None, comm="slurmstepd")
    fake.add(100, 90, f"{PY} -m torch.distributed.run t.py", slurm)
    for rank in range(2):
        fake.add(101 + rank, 100, f"{PY} t.py", {**slurm, **elastic(rank, 2)})
    for pid in (100, 102):
        assert ranks(find_job(fake.host(), pid)) == {101: 0, 102: 1}


def test_open_mpi_by_its_job_number(fake: FakeProc) -> None:
    """The launcher mpirun is no Python program, and another mpirun is another job."""
    for base, space in ((100, "11"), (200, "12")):
        fake.add(base, 10, "/usr/bin/mpirun -np 2 python3 m.py", {})
        for rank in range(2):
            env = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "PMIX_NAMESPACE": space}
            fake.add(base + 1 + rank, base, f"{PY} m.py", env)
    job = find_job(fake.host(), 200)
    assert ranks(job) == {201: 0, 202: 1}
    assert job.launcher == "mpirun"
    assert not next(m for m in job.members if m.pid == 200).python


def test_mpi_programs_without_python(fake: FakeProc) -> None:
    """Programs in C below mpirun are ranks, behind a wrapper or not; other programs are none."""
    fake.add(90, 1, "bash run.sh", {})
    fake.add(100, 90, "/usr/bin/mpirun -np 2 solver", {})
    for rank in range(2):
        env = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "PMIX_NAMESPACE": "7"}
        fake.add(110 + rank, 100, "bash wrap.sh", env)
        fake.add(120 + rank, 110 + rank, "./solver", env, maps="/usr/lib/libmpi.so.40")
    for pid in (90, 100, 121):
        job = find_job(fake.host(), pid)
        assert ranks(job) == {120: 0, 121: 1}
        assert not job.ranks[0].python
    assert gdb.is_for(fake.host(), 120)
    assert not gdb.is_for(fake.host(), 110)


def test_mpich_by_its_proxy(fake: FakeProc) -> None:
    """Hydra gives the ranks no job number; the process above them has to do."""
    for base in (100, 200):
        fake.add(base, 10, "/usr/bin/mpiexec -n 2 python3 m.py", {})
        fake.add(base + 5, base, "/usr/bin/hydra_pmi_proxy --control-port x", {})
        for rank in range(2):
            fake.add(base + 10 + rank, base + 5, f"{PY} m.py", {"PMI_RANK": rank, "PMI_SIZE": 2})
    assert ranks(find_job(fake.host(), 111)) == {110: 0, 111: 1}
    assert ranks(find_job(fake.host(), 200)) == {210: 0, 211: 1}


def test_ranks_that_rewrote_their_title(fake: FakeProc) -> None:
    """A new title wipes the environment; such ranks get the numbers that are left over."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun t.py", {})
    fake.add(101, 100, f"{PY} t.py", elastic(0, 3))
    fake.add(102, 100, ["train: rank one"], b"\0" * 400, exe=PY)
    fake.add(103, 100, f"{PY} t.py", elastic(2, 3))
    for pid in (100, 102, 103):
        job = find_job(fake.host(), pid)
        assert ranks(job) == {101: 0, 102: 1, 103: 2}
        assert [m.trust for m in job.members if m.pid == 102] == [Trust.INFERRED]


def test_all_ranks_rewrote_their_title(fake: FakeProc) -> None:
    """With no number left anywhere, ranks of one host are numbered in the order of their start."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun t.py", {})
    for rank in range(3):
        fake.add(101 + rank, 100, [f"train {rank}"], b"\0" * 400, exe=PY)
    assert ranks(find_job(fake.host(), 103)) == {101: 0, 102: 1, 103: 2}


def test_a_zombie_is_the_rank_that_its_siblings_lack(fake: FakeProc) -> None:
    """A program of one's own starts the ranks: of four one has ended, and three say their rank."""
    fake.add(100, 10, f"{PY} launch.py", {})
    for rank in (0, 1, 3):
        env = {"RANK": rank, "WORLD_SIZE": 4, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 1}
        fake.add(101 + rank, 100, f"{PY} train.py", env)
    fake.add(103, 100, (), b"", comm="python3", state="Z")

    assert ranks(find_job(fake.host(), 100)) == {101: 0, 102: 1, 103: 2, 104: 3}


def test_zombie_rank_below_its_launcher(fake: FakeProc) -> None:
    """A dead rank that nobody collected is still there, with its number and state Z."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun t.py", {})
    fake.add(101, 100, f"{PY} t.py", elastic(0, 2))
    fake.add(102, 100, (), b"", comm="python3", state="Z")
    assert ranks(find_job(fake.host(), 101)) == {101: 0, 102: 1}


def test_the_actors_of_a_driver_that_started_its_own_ray(fake: FakeProc) -> None:
    """The driver waits for its actors; they are the ranks, and Ray's own processes are none."""
    fake.add(90, 1, "bash run.sh", {})
    fake.add(100, 90, f"{PY} train.py", {})
    fake.add(110, 100, "/ray/core/src/ray/raylet/raylet --x", {}, comm="raylet")
    for pid, title in ((111, "DashboardAgent"), (112, "IDLE"), (113, "Trainer.fit")):
        fake.add(pid, 110, [f"ray::{title}"], {}, exe="/usr/bin/python3")

    for pid in (90, 100):
        assert [member.pid for member in find_job(fake.host(), pid).ranks] == [113]


def test_ray_workers_of_one_class(fake: FakeProc) -> None:
    """Ray's workers have no rank to read; those of one actor class are one job."""
    fake.add(100, 10, "/ray/raylet --x", {}, comm="raylet")
    for number_, title in enumerate(("RayTrainWorker.step", "RayTrainWorker", "IDLE", "Counter")):
        fake.add(101 + number_, 100, [f"ray::{title}"], b"\0" * 400, exe=PY)
    job = find_job(fake.host(), 101)
    assert ranks(job) == {101: None, 102: None}
    assert job.launcher == "ray"


def test_helpers_of_a_rank_by_role(fake: FakeProc) -> None:
    """Workers, trackers, compile workers and other programs below a rank are told apart."""
    env = elastic(0, 1)
    fake.add(100, 10, f"{PY} /venv/bin/torchrun t.py", {})
    fake.add(101, 100, f"{PY} t.py", env)
    fake.add(110, 101, TRACKER, env)
    fake.add(111, 101, SPAWN, env)
    compile_main = "/x/site-packages/torch/_inductor/compile_worker/__main__.py"
    fake.add(112, 101, f"{PY} {compile_main} --workers=2", env)
    fake.add(113, 112, [PY, "-c", "pool"], env)
    fake.add(114, 101, "/usr/bin/git status", env)
    fake.add(115, 101, f"{PY} t.py", env)
    job = find_job(fake.host(), 101)
    assert roles(job) == {
        101: Role.RANK,
        110: Role.RESOURCE_TRACKER,
        111: Role.DATALOADER_WORKER,
        112: Role.COMPILE_WORKER,
        113: Role.COMPILE_WORKER,
        114: Role.OTHER,
        115: Role.DATALOADER_WORKER,
        100: Role.LAUNCHER,
    }


def test_workers_that_outlived_their_rank_are_no_ranks(fake: FakeProc) -> None:
    """When rank 1 is killed, its DataLoader worker has the rank in its environment still."""
    torchrun(fake, 100, 29500)
    fake.add(160, 1, f"{PY} t.py", elastic(2, 3), comm="pt_data_worker")
    job = find_job(fake.host(), 100)
    assert ranks(job) == {101: 0, 102: 1}
    assert roles(job)[160] is Role.DATALOADER_WORKER


def test_worker_whose_whole_job_is_gone(fake: FakeProc) -> None:
    """Pointed at a worker that outlived its rank, there is a worker to look at, and no rank."""
    fake.add(160, 1, f"{PY} t.py", elastic(2, 3), comm="pt_data_worker")
    assert roles(find_job(fake.host(), 160)) == {160: Role.DATALOADER_WORKER}


def test_a_job_that_a_rank_started_is_another_job(fake: FakeProc) -> None:
    """An evaluation that rank 0 launches on the side is not part of the training."""
    torchrun(fake, 100, 29500)
    fake.add(170, 101, f"{PY} /venv/bin/torchrun eval.py", elastic(0, 2))
    fake.add(171, 170, f"{PY} eval.py", elastic(0, 1, 29999))
    assert ranks(find_job(fake.host(), 102)) == {101: 0, 102: 1}
    assert roles(find_job(fake.host(), 171)) == {171: Role.RANK, 170: Role.LAUNCHER}


def test_single_program_is_a_job_of_one(fake: FakeProc) -> None:
    """A Python program without ranks is looked at alone, with its workers."""
    fake.add(100, 10, f"{PY} t.py", {})
    fake.add(101, 100, f"{PY} t.py", {}, comm="pt_data_worker")
    job = find_job(fake.host(), 101)
    assert roles(job) == {100: Role.RANK, 101: Role.DATALOADER_WORKER}
    assert (ranks(job), job.family, job.world_size) == ({100: None}, None, None)


def test_single_program_under_a_launcher_that_gives_no_rank(fake: FakeProc) -> None:
    """On one GPU, ``accelerate launch`` starts its one process without a rank."""
    fake.add(100, 10, f"{PY} /venv/bin/accelerate launch t.py", {})
    fake.add(101, 100, f"{PY} t.py", {})
    fake.add(102, 101, f"{PY} t.py", {}, comm="pt_data_worker")
    for pid in (100, 101, 102):
        job = find_job(fake.host(), pid)
        wanted = {101: Role.RANK, 102: Role.DATALOADER_WORKER, 100: Role.LAUNCHER}
        assert roles(job) == wanted
        assert job.launcher == "accelerate"


def test_launcher_that_has_no_rank_yet(fake: FakeProc) -> None:
    """An agent that still waits for the other nodes is worth a look by itself."""
    fake.add(100, 10, f"{PY} /venv/bin/torchrun --nnodes 2 t.py", {})
    assert roles(find_job(fake.host(), 100)) == {100: Role.LAUNCHER}


@pytest.mark.parametrize(
    ("pid", "message"),
    [(777, "there is no process 777"), (2, "thread of the kernel"), (30, "has ended")],
)
def test_targets_that_cannot_be_looked_at(fake: FakeProc, pid: int, message: str) -> None:
    """Each says what is wrong and what to do instead."""
    fake.add(30, 10, (), b"", comm="python3", state="Z")
    with pytest.raises(TargetError, match=message) as told:
        find_job(fake.host(), pid)
    assert told.value.remedy


def test_target_of_another_user(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose environment may not be read is refused with the way to get it."""
    fake.add(30, 10, f"{PY} t.py", None)
    monkeypatch.setattr("os.geteuid", lambda: 54321)
    with pytest.raises(TargetError, match=r"process 30 .* belongs to") as told:
        find_job(fake.host(), 30)
    assert 'sudo "$(command -v whyhang)" 30' in told.value.remedy


def test_target_that_nobody_may_look_into(fake: FakeProc) -> None:
    """A protected process of one's own is refused without advice that would not help."""
    fake.add(30, 10, f"{PY} t.py", None)
    with pytest.raises(TargetError, match="is protected") as told:
        find_job(fake.host(), 30)
    assert "sudo" not in told.value.remedy


def test_target_without_python(fake: FakeProc) -> None:
    """Where no Python program runs any more, what is left of the job is looked at."""
    fake.add(30, 10, "/usr/bin/sh entry.sh", {})
    fake.add(31, 30, "/usr/bin/sleep 100", {})
    fake.add(32, 30, f"{PY} t.py", None, state="Z", comm="python")
    job = find_job(fake.host(), 30)

    assert [(member.pid, member.role) for member in job.members] == [
        (30, Role.LAUNCHER),
        (31, Role.LAUNCHER),
    ]
    assert "no Python program runs there" in job.left_out[0].why


def test_exits_that_nobody_collected(fake: FakeProc) -> None:
    """What the kernel keeps of a child that ended: its exit code, or the signal."""
    fake.add(30, 10, "/usr/bin/tail -f /dev/null", {})
    for pid, status in ((31, 1 << 8), (32, 9)):
        fake.add(pid, 30, f"{PY} t.py", {}, state="Z", comm="python", status=status)
    host = fake.host()
    codes = [(e.exitcode, e.signal) for e in ended(host, find_job(host, 30), "n")]

    assert codes == [(1, None), (None, 9)]


WRAP = """[{"pid": 7, "frames": [
  {"name": "worker", "filename": "/w/t.py", "locals": [
    {"name": "token", "repr": "\\"hunter2\\""}, {"name": "world_size", "repr": "4"}]},
  {"name": "_wrap", "filename": "/x/torch/multiprocessing/spawn.py", "locals": [
    {"name": "i", "repr": "%d"}, {"name": "args", "repr": "(hunter2,)"}]},
  {"name": "BaseProcess.run", "filename": "/x/multiprocessing/process.py", "locals": null}
]}]"""


def test_numbers_of_a_spawned_rank() -> None:
    """Of the local variables only the number of the rank and of all ranks is taken."""
    assert read_numbers((WRAP % 2).encode()) == Numbers(local_rank=2, size=4)
    assert read_numbers(b"not json") == Numbers()


def test_numbers_of_a_plain_process() -> None:
    """Programs with multiprocessing.Process call the argument ``rank``."""
    text = """[{"pid": 7, "frames": [
      {"name": "main", "filename": "/w/t.py", "locals": [
        {"name": "rank", "repr": "3"}, {"name": "size", "repr": "4"}, {"name": "x", "repr": "9"}]},
      {"name": "run", "filename": "/x/multiprocessing/process.py", "locals": []}]}]"""
    assert read_numbers(text.encode()) == Numbers(local_rank=3, rank=3, size=4)


def test_numbers_of_the_launcher() -> None:
    """The parent's ``nprocs`` tells how many ranks there should be, also if one is gone."""
    text = """[{"pid": 7, "frames": [{"name": "start_processes",
      "filename": "/x/torch/multiprocessing/spawn.py",
      "locals": [{"name": "nprocs", "repr": "8"}]}]}]"""
    assert read_numbers(text.encode()) == Numbers(size=8)


def spawn_family(fake: FakeProc) -> None:
    """Add a program with three spawned children, the last of which has a worker."""
    fake.add(100, 10, f"{PY} t.py", {})
    fake.add(101, 100, TRACKER, {})
    for child in range(3):
        fake.add(110 + child, 100, SPAWN, {})
    fake.add(120, 112, SPAWN, {})


SPAWNED = b'"_wrap" "/x/torch/multiprocessing/spawn.py"'
LOADER = b'"_worker_loop" "/x/torch/utils/data/_utils/worker.py"'


@pytest.mark.parametrize("pid", [100, 111, 120])
def test_spawned_ranks_are_told_by_their_stacks(fake: FakeProc, pid: int) -> None:
    """Children in ``_wrap`` are ranks, numbered by its ``i``; a worker belongs to its rank."""
    spawn_family(fake)
    host = fake.host()
    job = find_job(host, pid)
    assert job.family == 100
    dumps = {110: SPAWNED, 111: SPAWNED, 112: SPAWNED, 120: LOADER, 100: b""}
    job = settle(job, host, dumps)
    said = {110: Numbers(local_rank=1), 111: Numbers(local_rank=0), 112: Numbers(local_rank=2)}
    job = number(job, host, {**said, 100: Numbers(size=3)})
    assert ranks(job) == {111: 0, 110: 1, 112: 2}
    assert roles(job)[100] is Role.LAUNCHER
    assert next(m for m in job.members if m.pid == 120).owner == 112
    assert (job.launcher, job.world_size) == ("mp.spawn", 3)
    assert {m.trust for m in job.members if m.role is Role.RANK} == {Trust.INFERRED}


def test_spawned_ranks_without_variables_go_by_their_order(fake: FakeProc) -> None:
    """Where py-spy reads no variables, the order in which the children began has to do."""
    spawn_family(fake)
    host = fake.host()
    job = settle(find_job(host, 100), host, {110: SPAWNED, 111: SPAWNED, 112: SPAWNED})
    assert ranks(number(job, host, {})) == {110: 0, 111: 1, 112: 2}


@pytest.mark.parametrize("ended", [1, 2])
def test_a_spawned_rank_that_ended_is_the_one_that_nobody_else_is(
    fake: FakeProc, ended: int
) -> None:
    """A zombie fills the hole in the numbers; with one more of them, nobody knows which it was."""
    job, host = spawned_with_zombies(fake, ended)
    told = number(job, host, {101: Numbers(local_rank=0), 103: Numbers(local_rank=2)})
    assert ranks(told) == {101: 0, 103: 2} | ({102: 1} if ended == 1 else {})


def spawned_with_zombies(fake: FakeProc, ended: int) -> tuple[Job, Host]:
    """Make a program with two living spawned ranks and children that have ended."""
    fake.add(100, 10, f"{PY} train.py", {})
    for pid in (101, 103):
        fake.add(pid, 100, SPAWN, {})
    for pid in (102, 104)[:ended]:
        fake.add(pid, 100, (), b"", comm="python3", state="Z")
    host = fake.host()
    job = find_job(host, 100)
    return settle(job, host, dict.fromkeys((101, 103), b"torch/multiprocessing/spawn.py")), host


def test_workers_of_a_single_program_stay_workers(fake: FakeProc) -> None:
    """Children that stand in ``_worker_loop`` make no ranks; unknown ones are just processes."""
    spawn_family(fake)
    host = fake.host()
    job = settle(find_job(host, 100), host, {110: LOADER, 111: LOADER, 112: b"", 100: b""})
    assert ranks(job) == {100: None}
    assert roles(job)[110] is Role.DATALOADER_WORKER
    assert roles(job)[112] is Role.OTHER


def test_spawned_ranks_by_their_threads_alone(fake: FakeProc) -> None:
    """Where no stack may be read, the threads of gloo and NCCL in /proc tell the ranks."""
    fake.add(100, 10, f"{PY} t.py", {})
    for child in range(2):
        fake.add(110 + child, 100, SPAWN, {}, threads={210 + child: "pt_nccl_watchdg"})
    host = fake.host()
    job = number(settle(find_job(host, 100), host, {}), host, {})
    assert ranks(job) == {110: 0, 111: 1}


def test_spawned_ranks_that_lost_their_parent(fake: FakeProc) -> None:
    """When the program that spawned them is killed, the ranks it left are still one job."""
    for child in range(2):
        fake.add(110 + child, 1, SPAWN, {}, session=9)
    fake.add(120, 110, SPAWN, {}, session=9)
    fake.add(119, 1, SPAWN, {}, session=8)
    host = fake.host()
    job = settle(find_job(host, 111), host, {110: SPAWNED, 111: SPAWNED, 120: LOADER})
    assert ranks(number(job, host, {})) == {110: 0, 111: 1}
    assert next(m for m in job.members if m.pid == 120).owner == 110


def test_forkserver_children_are_not_the_server(fake: FakeProc) -> None:
    """Children of a fork server keep its command line; the server itself is a helper."""
    server = (PY, "-c", "from multiprocessing.forkserver import main; main(4)")
    fake.add(100, 10, f"{PY} t.py", {})
    fake.add(101, 100, server, {})
    for child in range(2):
        fake.add(110 + child, 101, server, {})
    host = fake.host()
    job = find_job(host, 111)
    assert roles(job)[101] is Role.RESOURCE_TRACKER
    job = number(settle(job, host, {110: SPAWNED, 111: SPAWNED}), host, {})
    assert ranks(job) == {110: 0, 111: 1}


ALIKE = (
    '[{"pid": 7, "frames": [{"name": "init_process_group", "filename": "torch/distributed/x.py"}]}]'
)


def frame(name: str, file: str, **variables: str) -> dict[str, object]:
    """Make a frame as ``py-spy dump --json --locals`` prints it."""
    told = [{"name": each, "repr": value} for each, value in variables.items()]
    return {"name": name, "filename": file, "locals": told}


def shell_loop(fake: FakeProc, *arguments: str, torch: str = "libtorch_cpu.so") -> None:
    """Add programs of one script that a shell started, one for each text of arguments."""
    for pid, text in enumerate(arguments, 100):
        fake.add(pid, 10, f"{PY} train.py {text}", {"HOME": "/root"}, maps=torch)


@pytest.mark.parametrize("pid", [10, 101])
def test_ranks_that_were_told_their_number_as_an_argument(fake: FakeProc, pid: int) -> None:
    """Programs of one shell in torch.distributed are one job; what they join as counts most."""
    shell_loop(fake, "--rank 0 --world_size=3", "--rank=2", "--rank 2")
    host = fake.host()
    job = settle(find_job(host, pid), host, dict.fromkeys((100, 101, 102), ALIKE.encode()))
    job = number(job, host, {102: Numbers(rank=1, size=3, joins=True)})
    assert ranks(job) == {100: 0, 101: 2, 102: 1}
    assert {m.trust for m in job.members} == {Trust.ENVIRONMENT}
    assert job.world_size == 3


def test_variables_named_rank_number_programs_only_where_each_has_its_own(fake: FakeProc) -> None:
    """A variable may count something else (a low-rank adapter): equal numbers are none."""
    shell_loop(fake, "0", "1")
    host = fake.host()
    job = settle(find_job(host, 10), host, dict.fromkeys((100, 101), ALIKE.encode()))
    told = number(job, host, {100: Numbers(rank=0), 101: Numbers(rank=1)})
    assert ranks(told) == {100: 0, 101: 1}
    assert {m.trust for m in told.members} == {Trust.INFERRED}
    eight = number(job, host, {100: Numbers(rank=8), 101: Numbers(rank=8)})
    assert ranks(eight) == {100: None, 101: None}


def test_runs_with_different_seeds_are_no_job(fake: FakeProc) -> None:
    """Programs of one shell that have nothing to do with each other are not joined."""
    shell_loop(fake, "--seed 0", "--seed 1")
    host = fake.host()
    dumps = dict.fromkeys((100, 101), b'[{"pid": 7, "frames": []}]')
    assert ranks(settle(find_job(host, 101), host, dumps)) == {101: None}
    with pytest.raises(TargetError, match="2 Python programs below process 10"):
        settle(find_job(host, 10), host, dumps)


def test_programs_without_torch_below_a_shell_are_refused_at_once(fake: FakeProc) -> None:
    """Python programs that load no torch are not taken for ranks, however alike they are."""
    shell_loop(fake, "--rank 0", "--rank 1", torch="")
    with pytest.raises(TargetError, match="2 Python programs below process 10"):
        find_job(fake.host(), 10)


def test_numbers_of_a_program_that_joins() -> None:
    """What ``init_process_group`` was given outranks a variable of the program."""
    c10d = "torch/distributed/distributed_c10d.py"
    joins = frame("init_process_group", c10d, rank="2", world_size="4")
    main = frame("main", "train.py", rank="7")
    module = frame("<module>", "train.py")
    frames = [joins, main, module]
    said = {
        length: read_numbers(json.dumps([{"pid": 7, "frames": frames[-length:]}]).encode())
        for length in (1, 2, 3)
    }
    assert said == {1: Numbers(), 2: Numbers(rank=7), 3: Numbers(rank=2, size=4, joins=True)}
