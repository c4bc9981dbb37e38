"""Whose evidence it is: ranks that introduce themselves, attempts, tables of processes, hosts."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, of, read_log

from whyhang.analyzer.facts import LogTail, OwnAddress, ProcessRank
from whyhang.analyzer.report import Report

LOST = (
    "[rank{0}]:[E1121 10:05:0{0}.1 ProcessGroupNCCL.cpp:552] [Rank {0}] Collective WorkNCCL("
    "SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) raised the following "
    "async exception: NCCL error: remote process exited or there was a network error\n"
)
WAITED = (
    "[rank{0}]:[E1121 14:05:00.1 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)
RAISED = (
    "[rank{0}]: Traceback (most recent call last):\n"
    '[rank{0}]:   File "/w/metrics.py", line 12, in push\n[rank{0}]:     post(values)\n'
    "[rank{0}]: {1}\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.38 GiB."


def culprits(report: Report) -> tuple[int, ...]:
    """Return whom the first finding names."""
    return tuple(report.findings[0].culprit_ranks or ()) if report.findings else ()


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("pid={1} RANK={0} WORLD_SIZE=4 cuda:{0}", {(r, 810 + r, None) for r in range(3)}),
        ("worker ready: rank {0} of 4 on n{0} pid {1}", {(r, 810 + r, f"n{r}") for r in range(3)}),
        ("{0}: host gpu-a{0} rank {0} local_rank 0", {(r, None, f"gpu-a{r}") for r in range(3)}),
        ("rank {0} lost its peer on n{0}", set()),
        ("rank 0 sends to rank {0}, pid {1}", set()),
        ("local rank {0} pid {1}", set()),
    ],
)
def test_ranks_introduce_themselves(
    line: str, places: set[tuple[int, int | None, str | None]]
) -> None:
    """What several ranks say alike of pid and host is theirs; what is said of others is not."""
    facts = read_log("".join(line.format(r, 810 + r) + "\n" for r in range(3)))
    rows = {(fact.rank, fact.who.pid, fact.who.host) for fact in of(facts, ProcessRank)}

    assert rows == places


def test_the_address_at_which_a_rank_listens() -> None:
    """It tells whom others have lost; the place where all meet does not."""
    own = "rank {0}/3 listening on 10.0.0.{0}:400{0}\n"
    lost = RAISED.format(0, "RuntimeError: [pair.cc:5] Connection closed by peer [10.0.0.2]:4002")
    meets = "rank {0}/3 MASTER_ADDR=10.0.0.2 listening\n"

    assert culprits(diagnosed_files({"a.log": "".join(map(own.format, range(3))) + lost})) == (2,)
    assert culprits(diagnosed_files({"a.log": "".join(map(meets.format, range(3))) + lost})) == ()
    assert len(of(read_log("".join(map(own.format, range(3)))), OwnAddress)) == 3


def test_a_host_that_does_not_answer() -> None:
    """The ranks that said to run there are gone; of a host nobody knows, nobody is named."""
    own = "".join(f"up on node n{r // 2} as rank {r}, pid {50 + r}\n" for r in range(6))
    log = own + "".join(LOST.format(rank) for rank in range(4))
    silent = "ssh: connect to host {} port 22: No route to host\n"

    answer = diagnosed_files({"job.log": log, "notes.txt": silent.format("n2")})
    other = diagnosed_files({"job.log": log, "notes.txt": silent.format("n7")})

    assert (answer.findings[0].signature, culprits(answer)) == ("host-does-not-answer", (4, 5))
    rows = {row.rank: (row.host, row.state) for row in answer.ranks}
    assert rows[5] == ("n2", "unreachable")
    assert culprits(other) == ()


PS = "  PID STAT WCHAN    COMMAND\n"


@pytest.mark.parametrize(
    ("states", "signature", "named"),
    [
        ("SRT", "listed-stopped", (2,)),
        ("ZSSS", "listed-defunct", (0,)),
        ("RDRR", "listed-uninterruptible", (1,)),
        ("DDDR", "", ()),  # all write a checkpoint
        ("RSRS", "", ()),
    ],
)
def test_a_table_of_processes(states: str, signature: str, named: tuple[int, ...]) -> None:
    """The few that cannot go on stand out beside the others; states of most ranks tell nothing."""
    rows = (f" {70 + rank} {state}l   -   python t.py\n" for rank, state in enumerate(states))
    log = "".join(f"pid={70 + rank} RANK={rank} up\n" for rank in range(len(states)))
    report = diagnosed_files({"ps.txt": PS + "".join(rows), "job.log": log})

    assert (report.findings[0].signature if named else "", culprits(report)) == (signature, named)


def test_an_earlier_attempt_is_no_cause_of_a_later_one() -> None:
    """What ended it was overcome by the restart, unless the job never got to work again."""
    steps = "".join(f"step {number} loss 2.1\n" for number in range(5))
    first = {f"run_x/attempt_0/{rank}/stderr.log": steps for rank in range(3)}
    first["run_x/attempt_0/1/stderr.log"] += RAISED.format(1, OOM)
    last = {f"run_x/attempt_1/{r}/stderr.log": steps + WAITED.format(r, 7) for r in (0, 1)}
    last["run_x/attempt_1/2/stderr.log"] = steps
    met_not = dict.fromkeys(last, "starting\n")

    assert culprits(diagnosed_files({**first, **last})) == (2,)
    assert culprits(diagnosed_files({**first, **met_not})) == (1,)


def test_above_the_restart_in_one_log() -> None:
    """The same where one file holds both attempts, with torchrun's line between them."""
    restart = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group\n"
    waits = "".join(WAITED.format(rank, 7) for rank in (0, 2, 3))
    log = RAISED.format(1, "ValueError: bad row") + "{}" + waits

    assert diagnosed_files({"a.log": log.format(restart)}).verdict == "hung"
    assert diagnosed_files({"a.log": log.format("")}).findings[0].culprit_ranks == (1,)


def test_an_exception_that_somebody_caught() -> None:
    """A rank that went on for hours and waits in vain at the end was not ended by it."""
    steps = "".join(f"[{rank}] step {n} loss 2\n" for n in range(4) for rank in range(4))
    waits = "".join(WAITED.format(rank, 7) for rank in (0, 1, 3))
    raised = RAISED.format(0, "ConnectionError: aborted")

    assert 0 not in culprits(diagnosed_files({"a.log": raised + steps + waits}))
    assert culprits(diagnosed_files({"a.log": steps + raised + waits})) == (0,)
    assert culprits(diagnosed_files({"a.log": raised + steps})) == (0,)  # steps were buffered


def test_a_crash_after_the_watchdog_is_an_effect() -> None:
    """A process that gave up waiting may crash as it leaves; the one before is the cause."""
    row = (
        "[{0}]:\n  time      : 2026-11-21_14:05:04\n  host      : n1\n"
        "  rank      : {0} (local_rank: {0})\n  exitcode  : {1} (pid: {2})\n"
    )
    crash = "[n1:73] Signal: Segmentation fault (11)\n"
    waits = "".join(WAITED.format(rank, 7) for rank in (0, 2, 3))
    rows = "".join(
        row.format(rank, code, 70 + rank) for rank, code in enumerate((-6, -15, -6, -11))
    )

    assert culprits(diagnosed_files({"a.log": waits + crash + rows})) == (1,)
    assert culprits(diagnosed_files({"a.log": crash + rows})) == (3,)


def test_a_time_of_day_is_no_host() -> None:
    """Before a number in brackets it names no process; the number is a rank's, if in turn."""
    text = "".join(
        f"2026-11-21 10:05:0{n} [{rank}] step {n} loss 2.1\n" for n in range(4) for rank in range(3)
    )
    epochs = "".join(f"10:05:0{n} [{n}] loss 2.1\n" for n in range(6))

    assert {tail.who.rank for tail in of(read_log(text), LogTail)} == {0, 1, 2}
    assert {(t.who.rank, t.who.host) for t in of(read_log(epochs), LogTail)} == {(None, None)}


def test_excerpts_of_calls_are_aligned_by_their_count() -> None:
    """Logs of NCCL's calls that begin at different ones show no mismatch, but who is behind."""
    line = (
        "m1:30{0}:30{0} [{0}] NCCL INFO {2}: opCount {1:x} sendbuff 0x7f recvbuff 0x7f count 64 "
        "datatype 7 op 0 root 0 comm 0x55{0} [nranks=3] stream 0x5b\n"
    )

    def logs(first: tuple[int, ...], last: tuple[int, ...], *, rises: bool = True) -> Report:
        files = {}
        for rank, (low, high) in enumerate(zip(first, last, strict=True)):
            numbers = range(low, high)
            ops = ["AllGather" if number % 3 else "AllReduce" for number in numbers]
            calls = (
                line.format(rank, n if rises else 5, op)
                for n, op in zip(numbers, ops, strict=False)
            )
            files[f"rank{rank}.log"] = "".join(calls)
        return diagnosed_files(files)

    assert logs((64, 68, 65), (90, 90, 90)).findings == ()
    assert culprits(logs((64, 68, 65), (90, 89, 90))) == (1,)
    assert logs((64, 68, 65), (90, 90, 90), rises=False).findings == ()


def test_one_rank_in_each_pod() -> None:
    """Lines of a pod are those of the rank that it has introduced."""
    log = "".join(f"[pod/seg-worker-{n}/app] RANK={n} WORLD_SIZE=3\n" for n in range(3))
    lines = ("Traceback (most recent call last):", '  File "/a.py", line 3, in f', "KeyError: 'x'")
    log += "".join(f"[pod/seg-worker-2/app] {line}\n" for line in lines)

    assert culprits(diagnosed_files({"logs.txt": log})) == (2,)


def test_the_master_of_rank_0_is_the_right_one() -> None:
    """However many ranks print another MASTER_ADDR; none is odd where all print their own name."""
    envs = {
        f"rank{rank}.log": f"MASTER_ADDR=10.0.3.{1 + (rank > 1)} MASTER_PORT=1 RANK={rank}\n"
        for rank in range(4)
    }

    assert culprits(diagnosed_files(envs)) == (2, 3)


INIT = (
    "{1}:{2}:9 [{3}] NCCL INFO ncclCommInitRank comm 0x55{0} rank {0} nranks 4 cudaDev {3} nvmlDev "
    "{3} busId {4}b000 commId 0x77 - Init COMPLETE\n"
)
JOB = "".join(INIT.format(r, f"hx{1 + r // 2}", 70 + r, r % 2, 1 + r % 2) for r in range(4))
FELL_OFF = "NVRM: Xid (PCI:0000:1b:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"
KILLED = "Out of memory: Killed process {} ({}) total-vm:9kB, anon-rss:8kB, file-rss:0kB\n"


@pytest.mark.parametrize(
    ("name", "named"),
    [("dmesg-hx2.txt", (2,)), ("hx1/kern.log", (0,)), ("dmesg-hx9.txt", ()), ("dmesg.txt", ())],
)
def test_the_host_of_a_kernel_log_is_in_its_name(name: str, named: tuple[int, ...]) -> None:
    """Where the host is one of the job's, an Xid reaches its rank; two hosts have equal buses."""
    waits = "".join(WAITED.format(rank, 7) for rank in range(4))
    report = diagnosed_files({"job.log": JOB + waits, name: FELL_OFF})

    accused = {
        rank
        for finding in report.findings
        if finding.confidence >= 0.5 and finding.category == "gpu-fell-off-bus"
        for rank in finding.culprit_ranks or ()
    }
    assert accused == set(named)


def test_what_the_kernel_killed_is_not_always_the_jobs() -> None:
    """A program of another name and number is a hint at most; a rank's process is the cause."""
    waits = "".join(WAITED.format(rank, 7) for rank in (0, 1, 3))

    theirs = diagnosed_files({"job.log": JOB + waits, "hx1/dmesg.txt": KILLED.format(12, "java")})
    ours = diagnosed_files({"job.log": JOB + waits, "hx2/dmesg.txt": KILLED.format(72, "python")})
    assert theirs.findings[0].category == "missing-rank-in-collective"
    assert (ours.findings[0].category, culprits(ours)) == ("rank-oom-killed", (2,))


def test_a_rank_that_is_known_by_its_own_lines_alone() -> None:
    """It belongs to the group in which others wait, though no record names it."""
    steps = "".join(f"[rank {r}] step {n} loss 2\n" for n in range(4) for r in range(4))
    waits = "".join(WAITED.format(rank, 7) for rank in range(3))

    assert culprits(diagnosed_files({"a.log": steps + waits})) == (3,)
    assert culprits(diagnosed_files({"a.log": steps.replace("[rank 3]", "") + waits})) == ()


def test_lines_of_two_processes_in_one() -> None:
    """Of lines that ran into each other each is that of the process that it names."""
    begun = [INIT.format(r, "hx1", 70 + r, r, 1 + r).replace("COMPLETE", "START") for r in range(3)]
    glued = f"0: {begun[0].rstrip()}1: {begun[1].rstrip()}2: {begun[2]}"

    assert culprits(diagnosed_files({"slurm.out": glued + "0: waiting\n1: waiting\n"})) == (3,)


def test_a_log_that_breaks_off_where_ranks_begin() -> None:
    """Who has not begun may stand behind the break."""
    begun = "".join(
        INIT.format(r, "hx1", 70 + r, r, 1 + r).replace("COMPLETE", "START") for r in range(3)
    )

    assert culprits(diagnosed_files({"job.log": begun})) == (3,)
    assert culprits(diagnosed_files({"job.log": begun + "hx1:7"})) == ()
