"""Ranks that run the same program vote on which of them went another way."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from call_docs import DONE, OPEN, WORLD, call, only, p2p, track

from whyhang.analyzer.collectives import RecordedCalls, Verdict, recorded_calls
from whyhang.analyzer.facts import Call, Group, Track

PAIRS = {0: Group(name="1", ranks=(0, 1), description="tp"),
         2: Group(name="2", ranks=(2, 3), description="tp")}  # fmt: skip
STEP = (("tp", 10), ("tp", 11), ("tp", 12), ("world", 13))
"""Group and line of each call of a step."""


def issued(rank: int, program: Sequence[tuple[str, int]], done: int) -> list[Track]:
    """Make the dump of a rank that has issued a program, of which ``done`` calls are through."""
    counts: Counter[str] = Counter()
    calls: dict[str, list[Call]] = defaultdict(list)
    for order, (name, line) in enumerate(program):
        counts[name] += 1
        state = DONE if order < done else OPEN
        calls[name].append(call(seq=counts[name], line=line, order=order, state=state))
    groups = {"tp": PAIRS[rank // 2 * 2], "world": WORLD}
    return [track(rank, *own, group=groups[name]) for name, own in calls.items()]


def job(*programs: tuple[Sequence[tuple[str, int]], int]) -> RecordedCalls:
    return recorded_calls(
        [t for rank, (p, done) in enumerate(programs) for t in issued(rank, p, done)]
    )


@pytest.mark.parametrize("rounds", [3, 5])
def test_who_leaves_a_call_out_of_a_circle_of_two_groups_is_named(rounds: int) -> None:
    """Rank 1 went to the call of all without line 12, where the other pair made it as before."""
    usual = STEP * rounds
    whole = (usual, len(usual) - 1)
    short = (*usual[:-2], usual[-1])

    finding = only(job((usual[:-1], len(usual) - 2), (short, len(short) - 1), whole, whole))

    assert (finding.verdict, finding.culprits) == (Verdict.CROSS_GROUP, (1,))


def test_a_call_that_all_make_for_the_first_time_blames_nobody() -> None:
    """Where others of its role have not come as far, it may be the next phase of the program."""
    usual = STEP * 3
    ahead = (*usual, ("world", 99))
    behind = (*usual, STEP[0])

    report = job(*[(ahead, len(ahead) - 1)] * 2, *[(behind, len(behind) - 1)] * 2)

    assert not {rank for f in report.findings for rank in f.culprits}


def test_two_ranks_are_enough_where_one_goes_on_as_both_did() -> None:
    """They part at a call that one of them makes as ever, and the other leaves out."""
    pair = Group(name="0", ranks=(0, 1), description="default_pg")
    sizes = {10: 4, 11: 8, 12: 16}
    usual = [10, 11, 12] * 4
    odd = [*usual[:9], 10, 12, 10]
    tracks = []
    for rank, lines in enumerate((usual, odd)):
        calls = [
            call(seq=n, line=line, size=(sizes[line],), state=DONE if n < 11 else OPEN)
            for n, line in enumerate(lines, start=1)
        ]
        tracks.append(track(rank, *calls, group=pair))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.SKIPPED, (1,))
    assert finding.site is not None
    assert finding.site.line == 12


@pytest.mark.parametrize(("field", "odd"), [("size", {"size": (9,)}), ("dtype", {"dtype": "Half"})])
def test_of_two_ranks_the_one_with_a_new_size_or_type_is_named(
    field: str, odd: dict[str, object]
) -> None:
    """At this line both have carried the same in every round, and one of them now does not."""
    pair = Group(name="0", ranks=(0, 1), description="default_pg")
    before = [call(seq=n, line=10) for n in range(1, 4)]
    tracks = [
        track(0, *before, call(seq=4, line=10, state=OPEN), group=pair),
        track(1, *before, call(seq=4, line=10, state=OPEN, **odd), group=pair),  # type: ignore[arg-type]
    ]

    finding = only(recorded_calls(tracks))

    assert (finding.field, finding.culprits, finding.by_history) == (field, (1,), True)


def test_absent_ranks_may_make_a_minority_the_majority() -> None:
    """Two against one with two unknown prove nothing; where one unknown makes a tie they do."""

    def present(ranks: Sequence[int], odd: int, world: Group) -> tuple[int, ...]:
        tracks = [
            track(r, call(seq=1, op="broadcast" if r == odd else "all_reduce", state=OPEN),
                  group=world)
            for r in ranks
        ]  # fmt: skip
        return only(recorded_calls(tracks)).culprits

    five, eight = (
        Group(name="0", ranks=tuple(range(size)), description="default_pg") for size in (5, 8)
    )

    assert present((0, 1, 3), 3, five) == ()
    assert present((0, 1, 3), 3, WORLD) == (3,)
    assert present((0, 1, 2, 3), 3, WORLD) == (3,)
    assert present((0, 1, 2, 3), 3, eight) == (3,)


def test_a_batch_that_stands_alone_in_one_call_answers_none() -> None:
    """Rank 0 left its receive out of a batch: the send that rank 1 answers does not end either."""
    pair = Group(name="0", ranks=(0, 1), description="default_pg")
    rounds = [
        [p2p("send", 1 - rank, n, DONE, line=30, order=2 * n),
         p2p("recv", 1 - rank, n, DONE, line=30, order=2 * n + 1)]
        for rank in (0, 1) for n in range(1, 6)
    ]  # fmt: skip
    last = [
        [p2p("send", 1, 6, line=30, order=12)],
        [p2p("send", 0, 6, line=30, order=12), p2p("recv", 0, 6, line=30, order=13)],
    ]
    tracks = [
        track(rank, *(c for calls in rounds[5 * rank : 5 * rank + 5] for c in calls), *last[rank],
              group=pair)
        for rank in (0, 1)
    ]  # fmt: skip

    assert only(recorded_calls(tracks)).verdict is Verdict.P2P_UNPAIRED


def test_who_has_not_come_yet_is_no_vote_for_those_who_came_early() -> None:
    """Two that left the loop and one that did not are three of eight."""
    eight = Group(name="0", ranks=tuple(range(8)), description="default_pg")
    before = (call(seq=1, line=10),)
    tracks = [track(r, *before, call("barrier", 2, OPEN, line=99), group=eight) for r in (1, 5)] + [
        track(0, *before, call(seq=2, line=10, state=OPEN), group=eight)
    ]
    tracks += [track(r, *before, group=eight) for r in (2, 3, 4, 6, 7)]

    assert 0 not in {rank for f in recorded_calls(tracks).findings for rank in f.culprits}
