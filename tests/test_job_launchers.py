"""The ranks of a job under Slurm, MPI, Ray, and what is no rank."""

from __future__ import annotations

from fake_proc import FakeProc, elastic
from job_docs import PY, SPAWN, TRACKER, ranks, roles, torchrun

from whyhang.analyzer.facts import Role, Trust
from whyhang.collectors.live import gdb
from whyhang.collectors.live.job.find import find_job


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
