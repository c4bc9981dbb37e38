"""What ranks gave to one call, or how often they go round a loop, says why they do not meet."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from small_jobs import ALL_REDUCE, BARRIER, BROADCAST, report_of, still

from whyhang.analyzer.facts import CallArgument, Fact, Source, Who
from whyhang.analyzer.report import Report

SOURCE = Source(file="claims.json")
SEND = """
send (torch/distributed/distributed_c10d.py:2400)
fill (pipe.py:12)
<module> (train.py:60)
"""
RECEIVE = """
recv (torch/distributed/distributed_c10d.py:2500)
drain (pipe.py:30)
<module> (train.py:60)
"""


def _given(rank: int, name: str, value: str, place: str, *, stands: bool = True) -> Fact:
    file, _, line = place.rpartition(":")
    return CallArgument(
        op="call", name=name, value=value, function="share", file=file, line=int(line),
        stands=stands, who=Who(rank=rank), source=SOURCE,
    )  # fmt: skip


def _looping(turns: Mapping[int, int], *left: int) -> Report:
    """All wait; who has left the loop receives, the others send in it."""
    stacks = {rank: RECEIVE if rank in left else SEND for rank in turns}
    loops = [
        _given(rank, "range", str(count), "pipe.py:10", stands=rank not in left)
        for rank, count in turns.items()
    ]
    return report_of([*still(stacks), *loops])


def test_the_rank_whose_loop_is_shorter() -> None:
    """It has left the loop that the others still send in."""
    finding = _looping({0: 7, 1: 8, 2: 8}, 0).findings[0]

    assert (finding.signature, finding.category) == ("loop-lengths-differ", "p2p-mismatch")
    assert finding.culprit_ranks == (0,)
    assert "has 7 turns on rank 0 and 8 on ranks 1-2" in finding.title


@pytest.mark.parametrize(
    ("turns", "left"),
    [
        ({0: 8, 1: 8, 2: 8}, (0,)),
        ({0: 7, 1: 8, 2: 8}, ()),
        ({0: 7, 1: 7, 2: 8, 3: 8}, (0, 1)),
        ({0: 2, 1: 1, 2: 1}, (1, 2)),
        ({0: 1, 1: 3, 2: 3}, (0,)),
        ({0: 7, 1: 8}, (0,)),
    ],
    ids=["as long", "all within", "as many", "a stage that warms up", "few turns", "two ranks"],
)
def test_loops_that_tell_nothing(turns: Mapping[int, int], left: tuple[int, ...]) -> None:
    """By design, or where it is not told whose is wrong."""
    signatures = [finding.signature for finding in _looping(turns, *left).findings]

    assert "loop-lengths-differ" not in signatures


def test_ranks_that_pick_another_group_at_one_line() -> None:
    """``group=groups[name]``: the variable says which one it is."""
    at = "train.py:40"
    picked = [
        _given(rank, "group", f"self.groups[{name!r}]", at)
        for rank, name in enumerate(("tp", "dp", "dp", "tp"))
    ]
    stacks = still(dict.fromkeys(range(4), ALL_REDUCE))

    crossed = report_of([*stacks, *picked]).findings[0]
    alike = report_of([*stacks, *(_given(n, "group", "self.groups['tp']", at) for n in range(4))])

    assert crossed.category == "cross-group-deadlock"
    assert "ranks 0,3 in all_reduce on groups['tp']" in crossed.title
    assert alike.findings[0].signature == "stuck-together"


def test_the_rank_that_names_another_root() -> None:
    """Those who have come past the broadcast tell by their variables which root they meant."""
    roots = [
        _given(rank, "root", "3" if rank == 3 else "1", "train.py:42", stands=rank == 2)
        for rank in range(4)
    ]
    stacks = still({rank: BROADCAST if rank == 2 else BARRIER for rank in range(4)})
    finding = report_of([*stacks, *roots]).findings[0]

    assert (finding.signature, finding.category) == ("root-differs", "collective-mismatch")
    assert finding.culprit_ranks == (3,)


def test_roots_of_several_calls_are_not_compared() -> None:
    """Each step may have a root of its own."""
    roots = [_given(rank, "root", str(rank), f"search.py:{29 + rank}") for rank in range(3)]
    report = report_of([*still(dict.fromkeys(range(3), BARRIER)), *roots])

    assert "root-differs" not in [finding.signature for finding in report.findings]
