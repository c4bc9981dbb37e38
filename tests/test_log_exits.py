"""Processes that ended, as every launcher, scheduler and shell words it."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, of, read_log

from whyhang.analyzer.facts import Exit, ProcessRank, RootCause, Trust, Who

ROW = """\
[{number}]:
  time      : 2026-11-21_02:29:34
  host      : node{host}.lab.example
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid}) {name}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org
"""
TABLE = (
    "E1121 02:29:34.1 24788 torch/distributed/elastic/multiprocessing/api.py:1002] failed "
    "(exitcode: -9) local_rank: 1 (pid: 22) of binary: /env/bin/python3\n"
    "train.py FAILED\nFailures:\n"
    + ROW.format(number=1, host=1, rank=0, local=0, code=-15, pid=21, name="(SIGTERM)")
    + "------\nRoot Cause (first observed failure):\n"
    + ROW.format(number=0, host=1, rank=1, local=1, code=-9, pid=22, name="(SIGKILL)")
)


def exits(text: str) -> list[Exit]:
    return of(read_log(text), Exit)


def test_torchruns_table() -> None:
    """Every row is one end; the line above it about the same pid is not another."""
    facts = read_log(TABLE)
    first, second = of(facts, Exit)

    assert (first.who.rank, first.signal, first.exitcode) == (0, 15, None)
    assert second.who == Who(rank=1, trust=Trust.CONTENT, host="node1", pid=22, local_rank=1)
    assert second.signal == 9
    assert "-9 (pid: 22) (SIGKILL)" in TABLE.splitlines()[(second.source.line or 0) - 1]
    assert second.quote == "exitcode  : -9 (pid: 22) (SIGKILL)"
    assert second.time == pytest.approx(1795228174.0)
    assert [fact.who.rank for fact in of(facts, RootCause)] == [1]
    assert {fact.who.pid: fact.rank for fact in of(facts, ProcessRank)} == {21: 0, 22: 1}


def test_the_old_table() -> None:
    """Torch 1.9 wrote "rank: 0" without blanks in front of the colon."""
    (end,) = exits("Root Cause:\n[0]:\n  rank: 3 (local_rank: 3)\n  exitcode: 1 (pid: 28561)\n")

    assert (end.who.rank, end.exitcode) == (3, 1)


@pytest.mark.parametrize(
    ("text", "rank", "trust"),
    [
        ("", 1, Trust.INFERRED),
        ("torchrun --nnodes=2 --nproc_per_node 8 train.py\n", None, Trust.NONE),
        ("  rank: 9 (local_rank: 1)\n  exitcode: 1 (pid: 5)\n", None, Trust.NONE),
        ("local_ranks=[0, 1]\nrole_ranks=[2, 3]\nglobal_ranks=[2, 3]\n", 3, Trust.INFERRED),
    ],
)
def test_a_local_rank_alone(text: str, rank: int | None, trust: Trust) -> None:
    """A local rank is taken for the rank only where nothing speaks of more hosts."""
    line = "failed (exitcode: -9) local_rank: 1 (pid: 48213) of binary: python\n"
    first = next(fact for fact in exits(text + line) if fact.who.pid == 48213)

    assert (first.who.local_rank, first.who.rank, first.who.trust) == (1, rank, trust)


SRUN = "srun: error: node3: task 5: "
MPIRUN = "mpirun noticed that process rank 3 with PID 12345 on node n1 exited on signal 9 (Killed)."
HYDRA = "=   RANK 1 PID 2345 RUNNING AT n1\n=   KILLED BY SIGNAL: 9 (Killed)"
KERNEL = "Jul  1 13:06:53 n7 kernel: Out of memory: Killed process 48213 (python3) total-vm:1kB"
MPI_ABORT = "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD"
LIGHTNING = "[rank: 3] Child process with PID 123 terminated with code -9. Forcefully terminating"


EVENT = (
    '{"name": "torchelastic.worker.status.FAILED", "source": "WORKER", "timestamp": 0, '
    '"metadata": {"run_id": "7", "global_rank": 5, "group_rank": 1, "worker_id": "284", '
    '"role": "default", "hostname": "n2", "state": "FAILED"}}'
)


@pytest.mark.parametrize(
    ("text", "who", "end"),
    [
        (f"{SRUN}Killed", (5, "node3", None), (9, None)),
        (f"{SRUN}Exited with exit code 2", (5, "node3", None), (None, 2)),
        (f"{SRUN}Segmentation fault (core dumped)", (5, "node3", None), (11, None)),
        (f"{SRUN}Out Of Memory", (5, "node3", None), (9, None)),
        ("yhrun: error: n1: task 5: Exited with exit code 174", (5, "n1", None), (None, 174)),
        ("srun: error: Node failure on node37", (None, "node37", None), (9, None)),
        (MPIRUN, (3, "n1", 12345), (9, None)),
        (
            "x45c1s3b0n0.hsn.lab: rank 17 died from signal 11 and dumped core",
            (17, "x45c1s3b0n0", None),
            (11, None),
        ),
        ("x45c1s3b0n0.hsn.lab: rank 2 exited with code 3", (2, "x45c1s3b0n0", None), (None, 3)),
        ("  Process name: [[12345,1],3]\n  Exit code:    7", (3, None, None), (None, 7)),
        ("  Process name: [prterun-h-12@1,3]\n  Exit code:    7", (3, None, None), (None, 7)),
        (
            "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD",
            (2, None, None),
            (None, 1),
        ),
        ("application called MPI_Abort(MPI_COMM_WORLD, 4) - process 3", (3, None, None), (None, 4)),
        (
            "Stack walkback for Rank 7 done\n\nProcess died with signal 11: 'Segmentation fault'",
            (7, None, None),
            (11, None),
        ),
        (
            "failed (exitcode: -9) for binary located at /bin/p with local_rank: 2 (process ID: 7)",
            (2, None, 7),
            (9, None),
        ),
        ("[cli_2]: aborting job:", (2, None, None), (None, 1)),
        ("[0]2: Return code = 3", (2, None, None), (None, 3)),
        (
            "<info>    [2021-12-07 10:43:01] 087c0ee7 || Process name: 2",  # Determined
            (2, None, None),
            (None, 1),
        ),
        (HYDRA, (1, "n1", 2345), (9, None)),
        ("=   PID 23 RUNNING AT n1\n=   EXIT CODE: 9", (None, "n1", 23), (None, 9)),
        (LIGHTNING, (3, None, 123), (9, None)),
        (
            EVENT,
            (5, "n2", 284),
            (None, 1),
        ),
        ("W1 api.py:897] Sending process 88 closing signal SIGTERM", (None, None, 88), (15, None)),
        ("job.sh: line 12: 12345 Killed    python train.py", (None, None, 12345), (9, None)),
        (KERNEL, (None, "n7", 48213), (9, None)),
        ("worker-3   0/1   OOMKilled   0   12m", (None, "worker-3", None), (9, None)),
    ],
)
def test_other_launchers(
    text: str, who: tuple[int | None, str | None, int | None], end: tuple[int | None, int | None]
) -> None:
    """Rank, host, pid and how it ended are read from each launcher's words."""
    (end_of,) = exits(text + "\n")

    assert (end_of.who.rank, end_of.who.host, end_of.who.pid) == who
    assert (end_of.signal, end_of.exitcode) == end


def test_many_tasks_in_one_line() -> None:
    """Srun folds tasks into ranges."""
    ends = exits("srun: error: n1: tasks 0-2,5: Exited with exit code 1\n")

    assert [fact.who.rank for fact in ends] == [0, 1, 2, 5]


def test_what_srun_kills_behind_a_failure_is_no_failure() -> None:
    """One that was killed first has failed by itself; a step that is cancelled ends by SIGTERM."""
    killed, aborted = "srun: error: n1: tasks 0-1: Killed\n", "srun: error: n2: task 2: Aborted\n"

    assert [fact.killed_with_others for fact in exits(aborted + killed)] == [False, True, True]
    assert not any(fact.killed_with_others for fact in exits(killed + aborted))
    assert not any(fact.killed_with_others for fact in exits(killed))
    assert not any(
        fact.killed_with_others for fact in exits("srun: error: n2: task 2: Terminated\n" + killed)
    )


def test_tasks_that_only_look_at_a_job_are_none_of_it() -> None:
    """A step of py-spy on all nodes has tasks, which are no ranks; the next command may be one."""
    looks = "srun --overlap --jobid=4711 bash -c 'pgrep -f train | xargs -n1 py-spy dump --pid'\n"
    failed = "srun: error: n3: task 3: Exited with exit code 123\n"

    assert exits(looks + failed) == []
    assert [end.who.rank for end in exits(looks + "srun python train.py\n" + failed)] == [3]


def test_tasks_of_srun_over_torchrun_are_no_ranks() -> None:
    """Where srun starts torchrun on each node, its tasks count nodes."""
    text = "srun: error: n1: task 1: Killed\nW1 12:00:00 7 torch/distributed/run.py:1] x\n"
    (end,) = exits(text)

    assert (end.who.rank, end.who.label, end.who.host) == (None, "task 1", "n1")


def test_deepspeed_and_spawn() -> None:
    """Spawn knows local ranks; DeepSpeed prints the command it started last, so nobody's."""
    deepspeed = (
        "[2023-05-01 10:00:00,123] [ERROR] [launch.py:434:sigkill_handler] ['/bin/python', '-u', "
        "'train.py', '--local_rank=3', '--x'] exits with return code = -9"
    )
    spawn = "torch.multiprocessing.spawn.ProcessExitedException: process 2 terminated with signal "
    ends = exits(f"{deepspeed}\n{spawn}SIGKILL\n")

    assert [(fact.who.local_rank, fact.signal) for fact in ends] == [(None, 9), (2, 9)]


def test_a_described_pod() -> None:
    """The pod's name and the reason are found above its exit code."""
    text = """\
Name:         train-worker-3
Namespace:    default
    Last State:     Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Exit Code:    0
"""
    (end,) = exits(text)

    assert (end.who.label, end.signal, end.exitcode) == ("train-worker-3", 9, 137)
    assert "OOMKilled" in end.quote


OOM = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId={}.0. Some of the step tasks have been "
    "OOM Killed.\n"
)


@pytest.mark.parametrize(
    ("files", "job"),
    [
        ({"job.log": OOM.format(194)}, "194"),
        ({"slurm-195.out": OOM.replace("StepId={}.0", "this step")}, "195"),
        ({"job.log": OOM.format(194) + OOM.format(195)}, "JOB"),
    ],
)
def test_the_job_stands_in_commands_of_slurm(files: dict[str, str], job: str) -> None:
    """Its number is filled in where all that tells one tells the same."""
    steps = diagnosed_files(files).findings[0].next_steps

    assert any(step.startswith(f"sacct -j {job} ") for step in steps), steps


@pytest.mark.parametrize(
    "text",
    [
        (
            "rank3 (local rank: 3)exitcode: -9 (pid: 4711)error file: <N/A>\n"
            "traceback : signal 9 (SIGKILL) received by PID 4711\n"
        ),
        "local_rank: 3\nexitcode: -9\ntraceback: Signal 9 (SIGKILL) received by PID 4711\n",
    ],
    ids=["one line", "two lines"],
)
def test_a_table_that_lost_its_form(text: str) -> None:
    """Rank and exit code as they come out of a paste: glued together, or without the rest."""
    (finding, *_) = diagnosed_files({"launcher.log": text}).findings

    assert (finding.category, finding.culprit_ranks) == ("rank-oom-killed", (3,))


@pytest.mark.parametrize("text", ["rank 0 sees exit code 1 of rank 3\n", "rank: 0\nexit code: 0\n"])
def test_an_exit_code_of_another(text: str) -> None:
    """A clean end, and a rank that tells the end of another one."""
    assert not any(f.culprit_ranks for f in diagnosed_files({"launcher.log": text}).findings)


@pytest.mark.parametrize(("minute", "named"), [("25", (1, 2)), ("20", None)])
def test_who_was_ended_long_after_the_others_gave_up(
    minute: str, named: tuple[int, ...] | None
) -> None:
    """Two of four gave up; the launcher ended the two others minutes later, or at once."""
    watchdog = (
        "[rank{0}]:[E1121 02:20:34.306947846 ProcessGroupNCCL.cpp:2119] [PG ID 0 PG GUID "
        "0(default_pg) Rank {0}] Process group watchdog thread terminated with exception: "
        "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=40, "
        "OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600001 "
        "milliseconds before timing out.\n"
    )
    rows = "".join(
        ROW.format(number=rank, host=1, rank=rank, local=rank, code=code, pid=700 + rank, name="")
        for rank, code in ((0, -6), (1, -15), (2, -15), (3, -6))
    ).replace("02:29:34", f"02:{minute}:36")
    findings = diagnosed_files({"job.log": watchdog.format(0) + watchdog.format(3) + rows}).findings

    assert findings[0].category == "missing-rank-in-collective"
    assert findings[0].culprit_ranks == named


OF_SEVERAL = {
    "a launcher of its own": (
        "launched rank 0 as pid 811\nlaunched rank 1 as pid 812\nlaunched rank 2 as pid 813\n"
        "pid 811 finished with return code 1\npid 812 finished with return code -9\n"
        "pid 813 finished with return code 1\n"
    ),
    "docker compose": (
        "worker-0 exited with code 1\nworker-1 exited with code 139\nworker-2 exited with code 1\n"
    ),
    "supervisord": (
        "2026-11-21 02:29:34,120 WARN exited: rank_0 (exit status 1; not expected)\n"
        "2026-11-21 02:29:34,121 WARN exited: rank_1 (terminated by SIGKILL; not expected)\n"
    ),
    "a list": "all workers are gone, exit codes: [1, -9, 1]\n",
}


@pytest.mark.parametrize("text", OF_SEVERAL.values(), ids=OF_SEVERAL)
def test_who_of_several_was_killed_is_read_in_any_words(text: str) -> None:
    """The others, who lost it, print no rank at all."""
    lost = "RuntimeError: [gloo/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1684.\n"
    first = diagnosed_files({"launcher.log": text + lost}).findings[0]

    assert (first.category, first.culprit_ranks) == ("rank-died", (1,))


@pytest.mark.parametrize(
    "text",
    [
        "pid 812 finished with return code -9\n",  # one process may be any
        "step-3 exited with code 1\nstep-5 exited with code 1\n",
        "worker-1 exited with code 0\nworker-0 exited with code 0\n",
        "exit code: 1\nreturn codes [0, 0, 0]\n",
    ],
)
def test_a_line_about_one_process_or_a_clean_end_is_no_rank_that_died(text: str) -> None:
    assert not [end for end in exits(text) if end.who.rank is not None]


def test_a_list_of_return_codes_is_read_however_it_is_parted() -> None:
    ended = exits("ERROR: Job 7 failed with return code list: [137, 1, 137 137]\n")

    assert {end.who.rank: end.exitcode for end in ended} == {0: 137, 1: 1, 2: 137, 3: 137}
