"""Process groups by the connections between ranks: who waits in which group for whom."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from fake_proc import FakeProc
from small_jobs import report_of, still

from whyhang.analyzer.facts import (
    Call,
    CallState,
    Excerpt,
    Group,
    GroupConnections,
    LoopCounter,
    Role,
    Source,
    Track,
    Trust,
    Who,
)
from whyhang.analyzer.report import Finding
from whyhang.collectors.live.job.members import JobProcess
from whyhang.collectors.live.probes import group_connections
from whyhang.collectors.live.sockets import Sockets

C10D = "torch/distributed/distributed_c10d.py"
EVERYONE = (0, 1, 2, 3)
HALVES = ((0, 1), (2, 3))
REPLICAS = ((0, 2), (1, 3))

PROGRAM = """\
def forward(x):
    for _ in range(limit):
        dist.all_reduce(x, group=half)
        if x.done:
            break
def report(lengths):
    forward(lengths)
    dist.all_reduce(lengths, group=replicas)
    dist.barrier()
"""
IN_HALF = f"all_reduce ({C10D}:3100)\nforward (train.py:3)\nreport (train.py:7)\n"
IN_REPLICAS = f"all_reduce ({C10D}:3100)\nreport (train.py:8)\n"
IN_BARRIER = f"barrier ({C10D}:5300)\nreport (train.py:9)\n"


def connections(
    groups: tuple[tuple[int, ...], ...], in_call: dict[int, tuple[tuple[int, ...], ...]]
) -> list[GroupConnections]:
    """Connect the ranks of each group; ``in_call`` are the groups in whose call each one is."""
    facts = []
    for number, group in enumerate(groups):
        ends: dict[int, list[tuple[str, str]]] = {rank: [] for rank in group}
        for one, other in combinations(group, 2):
            here, there = (
                f"10.0.0.1:{5000 + 100 * number + 10 * a + b}"
                for a, b in ((one, other), (other, one))
            )
            ends[one].append((here, there))
            ends[other].append((there, here))
        facts += [
            GroupConnections(
                ends=tuple(ends[rank]),
                in_call=group in in_call.get(rank, ()),
                who=Who(rank=rank, trust=Trust.CONTENT),
                source=Source(file="group_connections.json"),
            )
            for rank in group
        ]
    return facts


def first(
    stacks: tuple[str, ...],
    in_call: dict[int, tuple[tuple[int, ...], ...]],
    groups: tuple[tuple[int, ...], ...] = (EVERYONE, *HALVES, *REPLICAS),
) -> Finding:
    """Diagnose four ranks that stand still in the program."""
    source = Excerpt(file="train.py", first_line=1, lines=tuple(PROGRAM.splitlines()))
    facts = connections(groups, in_call)
    return report_of([*still(dict(enumerate(stacks))), *facts, source]).findings[0]


STOPPED = (IN_BARRIER, IN_HALF, IN_BARRIER, IN_REPLICAS)
STOPPED_IN = {0: (EVERYONE,), 1: ((0, 1),), 2: (EVERYONE,), 3: ((1, 3),)}


def test_of_two_that_wait_for_each_other_it_is_told_in_which_groups_and_who_has_come_past() -> None:
    """Two more ranks merely wait for them, and are in no sentence about the cause."""
    finding = first(STOPPED, STOPPED_IN)

    assert (finding.category, finding.culprit_ranks) == ("cross-group-deadlock", None)
    assert "Rank 0 waits in barrier of ranks 0-3 at train.py:9 (report) for rank 1" in finding.title
    assert "which waits in all_reduce of ranks 0-1 at train.py:3 (forward)" in finding.title
    assert "rank 0 has come past that call: it may have left by `break` (train.py:5)" in (
        finding.title
    )
    assert finding.affected_ranks == EVERYONE


@pytest.mark.parametrize(
    "in_call",
    [
        {**STOPPED_IN, 3: ()},  # of one it is not seen
        {**STOPPED_IN, 1: ((0, 1), (1, 3))},  # of one there are two, and its line tells neither
    ],
)
def test_a_circle_is_told_only_where_the_groups_of_all_are_known(
    in_call: dict[int, tuple[tuple[int, ...], ...]],
) -> None:
    """Else nothing is said of who waits for whom."""
    assert "which waits in" not in first(STOPPED, in_call).title


def test_a_line_that_says_it_is_of_all_ranks_decides_between_two_groups_in_a_call() -> None:
    """A call of another group may be under way beside it."""
    finding = first(STOPPED, {**STOPPED_IN, 0: (EVERYONE, (0, 2))})

    assert "Rank 0 waits in barrier of ranks 0-3" in finding.title


def test_ranks_that_do_not_begin_at_zero_are_taken_for_themselves() -> None:
    """As where only the hosts of one pipeline stage were looked at."""
    groups = tuple(tuple(r + 8 for r in group) for group in (EVERYONE, *HALVES, *REPLICAS))
    in_call = {
        rank + 8: tuple(tuple(r + 8 for r in group) for group in own)
        for rank, own in STOPPED_IN.items()
    }
    source = Excerpt(file="train.py", first_line=1, lines=tuple(PROGRAM.splitlines()))
    facts = connections(groups, in_call)
    stacks = dict(enumerate(STOPPED, 8))
    titles = [f.title for f in report_of([*still(stacks), *facts, source]).findings]

    words = "Rank 8 waits in barrier of ranks 8-11 at train.py:9 (report) for rank 9"
    assert any(words in title for title in titles)


def test_the_one_in_a_call_of_its_group_that_the_others_have_gone_past_is_named() -> None:
    """Two of its group are in a barrier of all: one call too many, or two too few."""
    stacks = (IN_REPLICAS, IN_BARRIER, IN_BARRIER, IN_BARRIER)
    groups = (EVERYONE, (0, 1, 2))
    finding = first(stacks, {0: ((0, 1, 2),), **dict.fromkeys((1, 2, 3), (EVERYONE,))}, groups)

    assert (finding.category, finding.culprit_ranks) == ("cross-group-deadlock", (0,))
    assert finding.affected_ranks == (1, 2, 3)


LOOP = """\
def look(x):
    dist.all_reduce(x, group=half)
def run():
    for step in range(n):
        look(x)
        dist.all_reduce(grad)
"""
IN_LOOK = f"all_reduce ({C10D}:3100)\nlook (train.py:2)\nrun (train.py:5)\n"
IN_MEAN = f"all_reduce ({C10D}:3100)\nrun (train.py:6)\n"


@pytest.mark.parametrize("known", [True, False])
def test_who_is_a_step_behind_in_a_call_of_its_group_was_left_there(*, known: bool) -> None:
    """Rank 0 has gone past it. Of a call of all, the one that is behind has made one too many."""
    stacks = {0: IN_MEAN, 1: IN_LOOK, 2: IN_MEAN, 3: IN_MEAN}
    in_call = {rank: (EVERYONE,) if rank != 1 else ((0, 1),) for rank in EVERYONE}
    counters = [
        LoopCounter(
            name="step", value=68 if rank == 1 else 69, function="run", file="train.py",
            who=Who(rank=rank, trust=Trust.CONTENT), source=Source(file="claims.json"),
        )
        for rank in EVERYONE
    ]  # fmt: skip
    source = Excerpt(file="train.py", first_line=1, lines=tuple(LOOP.splitlines()))
    groups = connections((EVERYONE, *HALVES), in_call) if known else []

    finding = report_of([*still(stacks), *groups, *counters, source]).findings[0]

    signature = "cross-group-deadlock" if known else "in-another-step"
    assert (finding.signature, finding.culprit_ranks) == (signature, None if known else (1,))


def test_who_is_left_in_a_call_that_most_of_its_group_may_have_left_out_is_not_named() -> None:
    """They have come past it by a ``break`` each, and it waits for them by right."""
    stacks = (IN_HALF, IN_BARRIER, IN_BARRIER, IN_BARRIER)
    groups = (EVERYONE, (0, 1, 2))
    finding = first(stacks, {0: ((0, 1, 2),), **dict.fromkeys((1, 2, 3), (EVERYONE,))}, groups)

    assert (finding.category, finding.culprit_ranks) == ("cross-group-deadlock", None)
    assert "ranks 1-2 have come past that call: they may have left by `break`" in finding.title


def message(rank: int, op: str, peer: int) -> Track:
    """Say with whom a rank is in a send or receive, as the arguments of its call do."""
    call = Call(op=op, state=CallState.INSIDE, p2p=True, peer=peer)
    source = Source(file=f"rank{rank}.peers.json")
    return Track(
        who=Who(rank=rank), group=Group(name=""), kind="stack", source=source, calls=(call,)
    )


def test_a_circle_of_messages_and_collectives_is_told_link_by_link() -> None:
    """No send and no receive has the wrong peer: each waits for one in a collective."""
    stacks = (
        IN_HALF,
        f"send ({C10D}:2500)\nreport (train.py:7)\n",
        f"recv ({C10D}:2600)\nreport (train.py:7)\n",
        IN_HALF,
    )
    facts = connections((EVERYONE, *HALVES), {0: ((0, 1),), 3: ((2, 3),)})
    messages = (message(1, "send", 3), message(2, "recv", 0))
    finding = report_of([*still(dict(enumerate(stacks))), *facts, *messages]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("cross-group-deadlock", None)
    for words in (
        "rank 0 waits in all_reduce of ranks 0-1 at train.py:3 (forward) for rank 1",
        "rank 1 waits in send to rank 3 for rank 3",
        "rank 3 waits in all_reduce of ranks 2-3 at train.py:3 (forward) for rank 2",
        "rank 2 waits in recv from rank 0 for rank 0",
    ):
        assert words in finding.title


def test_a_job_whose_ranks_are_in_one_group_is_told_as_without_connections() -> None:
    """All have arrived; no circle is made of calls of one group."""
    finding = first((IN_BARRIER,) * 4, dict.fromkeys(EVERYONE, (EVERYONE,)))

    assert "waits in" not in finding.title


def test_a_group_with_an_end_that_is_no_ranks_is_not_known() -> None:
    """One of its members was not looked at, and there may be others."""
    in_call = {**STOPPED_IN, 1: ((0, 1, 7),)}
    finding = first(STOPPED, in_call, (EVERYONE, (0, 1, 7), (2, 3), *REPLICAS))

    assert "which waits in" not in finding.title


QUEUE = "202 0x55f4a9125220 0x189 0x0 0x0 0x0 0xffffffff 0x7f89ad627d10 0x7f89cd0a3f16"
TIMED = "202 0x7f8990009b48 0x189 0x0 0x7f89a5ffa650 0x0 0xffffffff 0x7f89a5ffa500 0x7f89cd0a3f16"
PAUSED = TIMED.replace("202", "219")
EPOLL = "232 {fd:#x} 0x7f89ade28b80 0x40 0xa 0x0 0x0 0x7f89ade28940 0x7f89cd126f36"
TCP = "   {n}: 0100007F:{here:04X} 0100007F:{there:04X} 01 00000000:00000000 00:00000000 00000000"


@pytest.mark.parametrize("waits", [TIMED, PAUSED])
def test_threads_tell_in_which_group_a_process_is_in_a_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: str
) -> None:
    """A wait with a limit is one for other ranks, also behind a pause; one without is for work."""
    monkeypatch.setattr("os.uname", lambda: type("Machine", (), {"machine": "x86_64"}))
    proc = FakeProc(tmp_path)
    names = ["python", *(["gloo_tcp_loop", "pt_gloo_runloop", "pt_gloo_runloop"] * 2)]
    proc.add(100, 1, "python train.py", threads=dict(enumerate(names[1:], 101)))
    calls = ["0", EPOLL.format(fd=6), QUEUE, QUEUE, EPOLL.format(fd=13), QUEUE, waits]
    for tid, call in enumerate(calls, 100):
        (tmp_path / "100" / "task" / str(tid) / "syscall").write_text(call)
    (tmp_path / "100" / "net").mkdir()
    rows = [TCP.format(n=n, here=here, there=4000) for n, here in enumerate((5001, 5002))]
    table = "".join(f"{row}     0        0 {70 + n} 1\n" for n, row in enumerate(rows))
    (tmp_path / "100" / "net" / "tcp").write_text(f"  sl\n{table}")
    for folder in ("fd", "fdinfo"):
        (tmp_path / "100" / folder).mkdir()
    for epoll, socket, inode in ((6, 8, 70), (13, 15, 71)):
        (tmp_path / "100" / "fd" / str(epoll)).symlink_to("anon_inode:[eventpoll]")
        (tmp_path / "100" / "fd" / str(socket)).symlink_to(f"socket:[{inode}]")
        registered = f"pos:\t0\nflags:\t02\ntfd:  {socket} events: 19 data: 7f ino:1\n"
        (tmp_path / "100" / "fdinfo" / str(epoll)).write_text(registered)
    rank = JobProcess(pid=100, ppid=1, role=Role.RANK, rank=3)
    host = proc.host()

    found = [*group_connections.connections(host, rank, "node1", Sockets(host.proc))]

    assert [(fact.ends, fact.in_call) for fact in found] == [
        ((("127.0.0.1:5001", "127.0.0.1:4000"),), False),
        ((("127.0.0.1:5002", "127.0.0.1:4000"),), True),
    ]
    assert {fact.who.rank for fact in found} == {3}
