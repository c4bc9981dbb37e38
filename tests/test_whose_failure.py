"""Whose failure it is, where the line that says why does not say who."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding


def first(text: str, name: str = "job.log") -> Finding | None:
    """Return what comes first in the diagnosis of one log."""
    return next(iter(diagnosed_files({name: text}).findings), None)


def culprits(text: str) -> tuple[int, ...]:
    """Return whom it blames."""
    finding = first(text)
    return (finding.culprit_ranks or ()) if finding is not None else ()


FRAMES = '  File "/srv/run.py", line 4, in main\n    load()\n  File "/srv/io.py", line 9, in load\n'
HEAD = "(Worker rank=2 pid=11) ERROR 06-10 03:43:33 [executor.py:487] "
CUT = "".join(
    HEAD + line + "\n"
    for line in ("Traceback (most recent call last):", *FRAMES.rstrip("\n").split("\n"))
)
ROW = "failed (exitcode: {code}) local_rank: {rank} (pid: 7) of binary: /usr/bin/python\n"
TERMINATED = "".join(f"srun: error: n{rank}: task {rank}: Terminated\n" for rank in range(9))


TRUNCATED = (
    "[n1:91098] *** An error occurred in MPI_Recv\n[n1:91098] *** reported by process [36910,3]\n"
    "[n1:91098] *** MPI_ERR_TRUNCATE: message truncated\n"
)
ROLL = (
    "[2026-10-11 11:16:52] [a.py (306)] [ERROR] [actor-3 3 / 8][PID 1] "
    f"Traceback (most recent call last):\n{FRAMES}ValueError: nan\n"
)
ENDED_STEP = (
    "RuntimeError: CUDA out of memory.\nsrun: error: n1: task 2: Exited with exit code 1\n"
    "srun: launch/slurm: _step_signal: Terminating StepId=88.2\n"
    "srun: error: n2: task 1: Exited with exit code 1\nsrun: error: n2: task 0: Killed\n"
)


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("double free or corruption (!prev)\n" + ROW.format(code=-6, rank=5), 5),
        (
            "OSError: no route to the scheduler\n"
            "srun: error: n9: task 9: Exited with exit code 1\n" + TERMINATED,
            9,
        ),
        (CUT, 2),
        (FRAMES + "RuntimeError: Rank 9, node n3, device 1: found NaN in local grad norm\n", 9),
        (FRAMES + "md.core.MPIAbortException: 'ERROR on proc 5: Bond atoms 1 2 missing\n", 5),
        ("[10:00:00] CRITICAL [lib.hub:15, rank=6] Uncaught HubError: 429 Too Many Requests\n", 6),
        (
            "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer "
            "[10.0.0.2]:3523\n" + ROW.format(code=1, rank=0),
            0,
        ),
        ("(Trainer pid=8) Worker 3 has failed.\n", 3),
        ("`mpirun noticed that process rank 2 ... exited on signal 9 (Killed)`\n", 2),
        ("  exit status of rank 1: killed by signal 11 \n", 1),
        ("\t\tRanks [4] are 'Collective wasn't posted'\n", 4),
        (
            "loss [ready ranks: 3], grad_0 [ready ranks: 2, 0, 1], grad_1 [ready ranks: 0, 1, 2]\n",
            3,
        ),
        (TRUNCATED, 3),
        ("Abort(1) on node 6 (rank 2 in comm 496): application called MPI_Abort(comm=0x8, 1)\n", 6),
        ("Signal 11 received by node 4, process 56249 (thread 2000) - obtaining backtrace\n", 4),
        (
            ENDED_STEP,
            2,
        ),
        ("> [] [rank=1] RuntimeError: CUDA out of memory. Tried to allocate 824.00 MiB\n", 1),
        ("[rank0]: stuck at _ALLGATHER_BASE (SeqNum=73)\n[rank1-7]: stuck at ALLREDUCE(1,1)\n", 0),
        ("[3]PETSC ERROR: Caught signal number 11 SEGV: Segmentation Violation\n", 3),
        ("[WARN] PLE 0608 plexec One of MPI processes was aborted.(rank=2)(nid=0xff)\n", 2),
        ("ABORT!!! Of all 4 trainers, the trainer process with rank=[3] was aborted.\n", 3),
        ("Container failed !!!\nContainer rank 1 status failed cmd ['python'] code -9 log a\n", 1),
        (ROLL, 3),
        ("[1] --> FOAM FATAL IO ERROR: \n[1] keyword x is undefined\n", 1),
    ],
    ids=[
        *("abort", "tasks", "cut", "in the message", "lammps", "hook", "lost peer"),
        *(
            "ray",
            "elided",
            "mpich",
            "ucc",
            "horovod",
            "truncated",
            "node",
            "realm",
            "step",
            "determined",
            "places",
            "petsc",
            "fujitsu",
            "paddle",
            "paddle's containers",
            "roll",
            "openfoam",
        ),
    ],
)
def test_another_line_tells_who(text: str, rank: int) -> None:
    """A launcher's row, a logger's header, a list: the finding names the rank."""
    assert culprits(text) == (rank,)


IN_COLLECTIVE = CUT + "".join(
    f'{HEAD}  File "/lib/torch/distributed/distributed_c10d.py", line 9, in {name}\n'
    for name in ("wrapper", "all_reduce")
)


@pytest.mark.parametrize(
    "text",
    [
        "double free or corruption (!prev)\n"
        + ROW.format(code=-6, rank=5)
        + "Process group watchdog thread terminated with exception: timeout\n",
        IN_COLLECTIVE,
        "Uncaught HubError: 429 Too Many Requests\n",
        "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:3\n"
        + ROW.format(code=1, rank=0),
        "loss [ready ranks: 1], grad_0 [ready ranks: 0]\n",
        "Ranks [0] are last known progressing comms #7 (op=ALLREDUCE)\n",
        f"Traceback (most recent call last):\n{FRAMES}RuntimeError: rank 3 is not a member\n",
    ],
    ids=[
        *("watchdog's abort", "in a collective", "no header", "who lost it", "of two", "progress"),
        "an argument",
    ],
)
def test_nobody_is_blamed(text: str) -> None:
    """An abort of a watchdog, a call that others broke, a victim that is not told apart."""
    assert culprits(text) == ()


def test_a_barrier_after_steps() -> None:
    """XLA's tasks that did not come to a barrier in the middle of a run."""
    text = (
        "completed step: 46, loss: 6.5\n"
        "XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: write_complete.0\n"
        "/job:jax_worker/replica:0/task:6\n/job:jax_worker/replica:0/task:4\n"
        "I0320 20:56:05 manager.py:1722] [step=0] Resetting\n"
    )
    finding = first(text)

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == ("missing-rank-in-collective", (4, 6))


ABORTED = (
    "srun: error: n1: task 0: Exited with exit code 1\n"
    "srun: error: n2: task 1: Exited with exit code 1\n"
    "n2:711:802 [0] misc/socket.cc:50 NCCL WARN Connection closed by remote peer n1<45074>\n"
    "n2:711:802 [0] NCCL INFO comm 0x8e0 rank 1 nranks 2 cudaDev 0 busId 100000 - {event}\n"
)


def test_who_says_that_it_lost_a_peer_is_an_echo() -> None:
    """NCCL's last line of a communicator tells whose process said so; the other one failed."""
    report = diagnosed_files({"job.err": ABORTED.format(event="Abort COMPLETE")})
    unknown = diagnosed_files({"job.err": ABORTED.format(event="Abort START")})

    assert report.findings[0].culprit_ranks == (0,)
    assert unknown.findings[0].culprit_ranks is None


RAISED = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/ring.py", line 176, in main
[rank{rank}]:     reqs = build(rank)
[rank{rank}]: RuntimeError: communicator is not there
"""


def test_an_error_of_all_but_one_that_speaks_is_theirs() -> None:
    """A rank that prints and does not fail is one of the ranks; else the program is at fault."""
    errors = RAISED.format(rank=1) + RAISED.format(rank=2)
    started = "[Rank 0]: created driver\n[Rank 1]: created driver\n[Rank 2]: created driver\n"

    assert culprits(started + errors) == (1, 2)
    assert culprits(errors) == ()


@pytest.mark.parametrize(("world", "named"), [("1", (0,)), ("2", ())])
def test_what_befell_a_rank_of_one_befell_rank_0(world: str, named: tuple[int, ...]) -> None:
    """Of a job with one rank nobody has to say which."""
    text = (
        f"world_size={world} backend=nccl\n"
        "[2031-01-19 10:14:05,900] [INFO] [launch.py:315:sigkill_handler] Killing subprocess 112\n"
        "[2031-01-19 10:14:05,903] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', "
        "'-u', 'main.py'] exits with return code = -9\n"
    )

    assert culprits(text) == named


TOKENS = "Traceback (most recent call last):\n" + FRAMES + "KeyError: 'tokens'\n"


@pytest.mark.parametrize(
    "error",
    [
        TOKENS,
        TOKENS.replace("KeyError: 'tokens'", "ImportError: cannot import name 'amp' from 'apex'"),
        "AssertionError: Loading a checkpoint for MP=2 but world size is 1\n",
    ],
    ids=["exception", "import", "world size"],
)
def test_the_one_process_of_a_job_is_its_rank(error: str) -> None:
    """Whatever befell it, as its launcher's row says."""
    assert culprits(error + ROW.format(code=1, rank=0)) == (0,)


def test_what_slurm_kills_at_its_limit_has_not_failed() -> None:
    limit = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2031-06-30T04:08:07 DUE TO TIME LIMIT"
    finding = first(f"srun: error: n1: task 0: Killed\n{limit} ***\n")

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("slurm-time-limit", None)


def test_an_error_that_all_print_is_the_programs() -> None:
    """A line of a solver's own, with the label of each rank."""
    lines = "".join(f"[{n}] --> FOAM FATAL ERROR: \n[{n}] no such patch\n" for n in range(4))
    finding = first(lines)
    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == ("not-distributed", None)


WATCHDOG = (
    "[E ProcessGroupNCCL.cpp:566] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(OpType={op}, Timeout(ms)=1800000) ran for 1801060 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(("ops", "rank"), [("ABBB", 0), ("BBAB", 2), ("AABB", None), ("AB", None)])
def test_the_rank_whose_watchdog_gave_up_in_another_call(ops: str, rank: int | None) -> None:
    """Without sequence numbers, of three and one the one."""
    names = {"A": "ALLREDUCE", "B": "BROADCAST"}
    log = "".join(WATCHDOG.format(rank=n, op=names[op]) for n, op in enumerate(ops))
    finding = first(log)
    assert finding is not None
    assert finding.culprit_ranks == (None if rank is None else (rank,))


@pytest.mark.parametrize(("aborted", "all_others"), [((0, 1, 3), True), ((1, 3), False)])
def test_who_was_ended_beside_aborts_was_at_work_where_these_are_all_others(
    aborted: tuple[int, ...], *, all_others: bool
) -> None:
    """Of others nothing is known: the aborts may be the failures."""
    rows = "".join(f"srun: error: n1: task {task}: Aborted\n" for task in aborted)
    finding = first(rows + "srun: error: n1: task 2: Terminated\n")
    assert finding is not None
    assert (finding.culprit_ranks == (2,)) is all_others


def test_who_waited_until_the_limit_is_not_to_blame_for_its_exit_in_older_words_either() -> None:
    """With blocking waits (torch 1.13 to 2.0) the exception does not speak of a watchdog."""
    waited = (
        "RuntimeError: [Rank 1] Caught collective operation timeout: WorkNCCL(SeqNum=6, "
        "OpType=ALLREDUCE, TensorShape=[1], Timeout(ms)=1800000) ran for 1800863 milliseconds "
        "before timing out.\n"
    )
    row = "api:failed (exitcode: 1) local_rank: 1 (pid: 1312) of binary: /usr/bin/python\n"

    assert culprits(f"{waited}ERROR:torch.distributed.elastic.multiprocessing.{row}") == ()


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        ("tasks 1,3: Aborted|task 2: Terminated", (1, 3)),
        ("tasks 1,3: Exited with exit code 1|tasks 0,2: Terminated", (1, 3)),
        ("tasks 0-3: Exited with exit code 1", ()),
    ],
)
def test_a_few_that_end_before_all_others_are_terminated_ended_first(
    rows: str, ranks: tuple[int, ...]
) -> None:
    """Where all ended so, nobody is known to have been first."""
    assert culprits("".join(f"srun: error: n1: {row}\n" for row in rows.split("|"))) == ranks


ENTRY = """[{number}]:
  time      : 2026-09-07_13:02:58
  host      : n1
  rank      : {rank} (local_rank: {rank})
  exitcode  : 1 (pid: 1469{rank})
"""


@pytest.mark.parametrize("root", [1, 3])
def test_the_root_cause_that_the_launcher_names_counts_among_rows_of_one_second(root: int) -> None:
    """It has compared the times itself, which it prints to the second."""
    entries = [ENTRY.format(number=n, rank=rank) for n, rank in enumerate((root, 4 - root))]
    table = f"train.py FAILED\nFailures:\n{entries[1]}{'-' * 60}\n"

    assert culprits(f"{table}Root Cause (first observed failure):\n{entries[0]}") == (root,)


def test_the_number_of_a_gpu_tells_the_rank_of_a_worker_that_only_has_a_pid() -> None:
    """The first GPU may be the only one that it sees."""
    line = (
        "(VllmWorkerProcess pid=2421) ERROR 10-14 12:32:47 multiproc_worker_utils.py:233] "
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.88 GiB. GPU {} has a "
        "total capacity of 21.96 GiB of which 1.29 GiB is free.\n"
    )

    assert culprits(line.format(3)) == (3,)
    assert culprits(line.format(0)) == ()


def test_ranks_that_paddles_launcher_lists_are_named() -> None:
    text = (
        "Out of all 4 trainers, the trainer process with rank=[0, 2] was aborted. Please check.\n"
    )
    assert culprits(f"ERROR 2026-11-12 04:02:41,061 launch.py:269] ABORT!!! {text}") == (0, 2)
