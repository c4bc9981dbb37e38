"""Ranks that a program has spawned by itself, told by their stacks and arguments."""

from __future__ import annotations

import json

import pytest
from fake_proc import FakeProc
from job_docs import PY, SPAWN, TRACKER, ranks, roles

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Role, Trust
from whyhang.collectors.live.frame_variables import Numbers, read_numbers
from whyhang.collectors.live.job.by_stacks import number, settle
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob

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
def test_spawned_ranks_are_recognized_by_their_stacks(fake: FakeProc, pid: int) -> None:
    """Children in ``_wrap`` are ranks, numbered by its ``i``; a worker belongs to its rank."""
    spawn_family(fake)
    host = fake.host()
    job = find_job(host, pid)
    assert job.family == 100
    dumps = {110: SPAWNED, 111: SPAWNED, 112: SPAWNED, 120: LOADER, 100: b""}
    job = settle(job, host, dumps)
    values = {110: Numbers(local_rank=1), 111: Numbers(local_rank=0), 112: Numbers(local_rank=2)}
    job = number(job, host, {**values, 100: Numbers(size=3)})
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
    numbered_job = number(job, host, {101: Numbers(local_rank=0), 103: Numbers(local_rank=2)})
    assert ranks(numbered_job) == {101: 0, 103: 2} | ({102: 1} if ended == 1 else {})


def spawned_with_zombies(fake: FakeProc, ended: int) -> tuple[HostJob, Host]:
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


def test_the_server_of_a_manager_is_no_rank(fake: FakeProc) -> None:
    """It is spawned by the same program as the ranks, and would be the first of them."""
    spawn_family(fake)
    host = fake.host()
    manager = b'"serve_forever" "/x/multiprocessing/managers.py"'
    job = settle(find_job(host, 100), host, {110: manager, 111: SPAWNED, 112: SPAWNED})
    assert ranks(number(job, host, {})) == {111: 0, 112: 1}
    assert roles(job)[110] is Role.OTHER


@pytest.mark.parametrize(
    ("functions", "joins", "are_ranks"),
    [
        (("actor", "actor", "actor"), "join", True),
        (("actor", "actor", "writer"), "join", False),
        (("actor", "actor", "actor"), "start", False),
    ],
)
def test_a_program_that_only_waits_for_processes_alike_has_ranks(
    fake: FakeProc, functions: tuple[str, ...], joins: str, *, are_ranks: bool
) -> None:
    """Without torch, children that all run one function of a program that joins them."""
    spawn_family(fake)
    host = fake.host()
    library = "/usr/lib/python3.11/multiprocessing/process.py"
    stacks = {100: [frame("wait", library), frame(f"BaseProcess.{joins}", library)]} | {
        110 + n: [frame(name, "/job/swarm.py"), frame("BaseProcess.run", library)]
        for n, name in enumerate(functions)
    }
    dumps = {p: json.dumps([{"pid": p, "frames": frames}]).encode() for p, frames in stacks.items()}
    job = settle(find_job(host, 100), host, dumps)
    assert ranks(job).keys() == ({110, 111, 112} if are_ranks else {100})


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


def test_what_a_spawned_rank_forks_is_no_rank(fake: FakeProc) -> None:
    """A simulator, a writer: its stack goes on below with that of the rank which forked it."""
    spawn_family(fake)
    host = fake.host()
    dumps = dict.fromkeys((110, 111, 112, 120), SPAWNED)
    job = number(settle(find_job(host, 100), host, dumps), host, {})

    assert set(ranks(job)) == {110, 111, 112}
    assert next(m for m in job.members if m.pid == 120).owner == 112


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
    rows = [{"name": each, "repr": value} for each, value in variables.items()]
    return {"name": name, "filename": file, "locals": rows}


def shell_loop(fake: FakeProc, *arguments: str, torch: str = "libtorch_cpu.so") -> None:
    """Add programs of one script that a shell started, one for each text of arguments."""
    for pid, text in enumerate(arguments, 100):
        fake.add(pid, 10, f"{PY} train.py {text}", {"HOME": "/root"}, maps=torch)


@pytest.mark.parametrize("pid", [10, 101])
def test_ranks_that_have_their_number_as_an_argument(fake: FakeProc, pid: int) -> None:
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
    numbered_job = number(job, host, {100: Numbers(rank=0), 101: Numbers(rank=1)})
    assert ranks(numbered_job) == {100: 0, 101: 1}
    assert {m.trust for m in numbered_job.members} == {Trust.INFERRED}
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
    rows = {
        length: read_numbers(json.dumps([{"pid": 7, "frames": frames[-length:]}]).encode())
        for length in (1, 2, 3)
    }
    assert rows == {1: Numbers(), 2: Numbers(rank=7), 3: Numbers(rank=2, size=4, joins=True)}
