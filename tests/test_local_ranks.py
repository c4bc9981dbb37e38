"""Local ranks become global ones only where that follows."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.facts import (
    Fact,
    LastLine,
    LogLine,
    Source,
    StackDump,
    Trust,
    Who,
    WorldSize,
    replace,
)
from whyhang.analyzer.job.inference.local_ranks import numbered

SOURCE = Source(file="job.log")


def dump(local_rank: int, host: str | None = None) -> StackDump:
    who = Who(local_rank=local_rank, host=host)
    return StackDump(who=who, tool="faulthandler", threads=(), source=SOURCE)


def ranks(facts: list[Fact]) -> list[int | None]:
    return [fact.who.rank for fact in numbered(facts) if isinstance(fact, StackDump)]


def test_one_node() -> None:
    """Local ranks 0 to 3 of one host, and no sign of more, are the ranks."""
    numbers = numbered([dump(n) for n in range(4)])

    assert [fact.who for fact in numbers if isinstance(fact, StackDump)] == [
        Who(rank=n, trust=Trust.INFERRED, local_rank=n) for n in range(4)
    ]


def test_lines_that_name_both() -> None:
    """A line of the same host that names local and global rank gives the offset."""
    line = LogLine(
        who=Who(rank=11, trust=Trust.PREFIX, local_rank=3, host="b"), text="x", source=SOURCE
    )

    assert ranks([line, dump(0, "b"), dump(0, "a")]) == [8, None]


def test_no_conclusion() -> None:
    """Two hosts, a larger world, a rank beyond, or a hole: the local rank stays one."""
    four: list[Fact] = [dump(n) for n in range(4)]
    world = WorldSize(size=8, who=Who(), source=SOURCE)
    beyond = LogLine(who=Who(rank=7, trust=Trust.PREFIX), text="x", source=SOURCE)

    for facts in (
        [dump(0, "a"), dump(1, "a"), dump(0, "b"), dump(1, "b")],
        [*four, world],
        [*four, beyond],
        [dump(0), dump(2)],
        [dump(0)],
    ):
        assert set(ranks(facts)) == {None}


def test_a_world_too_small_for_two_hosts() -> None:
    """Local rank 5 of a world of 8 shares its host with all others; of 12 it need not."""
    for size, expected in ((8, [1, 5]), (12, [None, None]), (4, [None, None])):
        world = WorldSize(size=size, who=Who(), source=SOURCE)
        assert ranks([dump(1), dump(5), world]) == expected


def test_silent_files_of_the_others() -> None:
    """A log without a telling line shows that its rank is there, so nobody is missing."""
    ends: list[Fact] = [
        LastLine(text="step 3", ends_log=True, who=Who(local_rank=n), source=SOURCE) for n in (0, 1)
    ]

    assert ranks([*ends, dump(2)]) == [2]
    assert ranks([dump(2)]) == [None]


def test_a_file_of_its_own_tells_whose_all_of_it_is() -> None:
    """Lines without a prefix, and the end of the file, are of the rank that others of it name."""
    log = Source(file="attempt_0/3/stderr.log")
    named = LogLine(
        who=Who(rank=11, trust=Trust.PREFIX, local_rank=3, host="b"), text="x", source=log
    )
    end = LastLine(text="step 7", ends_log=True, who=Who(local_rank=3), source=log)
    other = replace(end, who=Who(local_rank=2), source=Source(file="other/2/stderr.log"))

    rows = [fact.who.rank for fact in numbered([named, end]) if isinstance(fact, LastLine)]
    assert rows == [11]
    two_hosts = replace(named, who=replace(named.who, rank=1, host="a"), source=other.source)
    rows = [
        fact.who.rank
        for fact in numbered([named, end, two_hosts, replace(other, source=SOURCE)])
        if isinstance(fact, LastLine)
    ]
    assert rows == [11, None]


STEPS = "2026-11-23 03:00:01 - INFO - [rank {rank}] it 7\n2026-11-23 03:00:02 - INFO - it 8\n"
RAISED = 'Traceback (most recent call last):\n  File "/w/fit.py", line 210, in step\n    step(x)\n'
LOST = "torch.distributed.DistBackendError: NCCL error: remote process exited\n"


def test_lines_in_which_a_program_names_its_rank_tell_what_its_local_rank_is() -> None:
    """They may say nothing of interest; the traceback behind has the local rank only."""
    files = {}
    for rank in range(8):
        text = STEPS.format(rank=rank) + RAISED + ("OSError: bad atom\n" if rank == 5 else LOST)
        lines = [f"[default{rank % 4}]:{line}\n" for line in text.splitlines()]
        files[f"node{rank // 4}.log"] = files.get(f"node{rank // 4}.log", "") + "".join(lines)
    report = diagnosed_files(files)

    assert report.findings[0].culprit_ranks == (5,)
    assert "OSError" in report.headline


TIMED_OUT = (
    "[rank1]:[E1129 10:00:01.000000001 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, "
    "Timeout(ms)=600000) ran for 600029 milliseconds before timing out.\n"
)
ELASTIC = "torch/distributed/elastic/multiprocessing/api.py"
ENDS = f"W1129 10:00:03.592000 17493 {ELASTIC}:1028] Sending process {{}} closing signal SIGTERM\n"
FAILS = (
    f"E1129 10:00:03.900000 17493 {ELASTIC}:984] failed (exitcode: -6) local_rank: {{}} "
    "(pid: {}) of binary: /usr/bin/python3\n"
)


@pytest.mark.parametrize(
    ("local_rank", "pids", "absent"),
    [
        (1, (4711, 4712), (0,)),  # it is the one below
        (0, (4712, 4711), None),  # above it one may be missing that is not spoken of
        (1, (4713, 4712), None),  # a pid of another place
    ],
)
def test_processes_that_torchrun_ends_are_numbered_by_their_pids(
    local_rank: int, pids: tuple[int, int], absent: tuple[int, ...] | None
) -> None:
    """Whom it ends it names by the pid alone; it has started them in their order."""
    ended, failed = pids
    log = TIMED_OUT.replace("ank 1]", f"ank {local_rank}]").replace("nk1", f"nk{local_rank}")
    log += ENDS.format(ended) + FAILS.format(local_rank, failed)
    first = diagnosed_files({"job.log": log}).findings[0]
    assert (first.category, first.culprit_ranks) == ("missing-rank-in-collective", absent)
