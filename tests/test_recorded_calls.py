"""Recorded calls of all ranks, matched: who did not join a call, and who is stuck in one."""

from __future__ import annotations

from call_docs import DONE, OPEN, WORLD, call, only, stuck_at, track

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, Group, Source, Track, Who

# --- never joined ---------------------------------------------------------------------------


def test_the_rank_that_did_not_come_is_named() -> None:
    """One rank lags, the others wait in a call it has not enqueued."""
    tracks = [track(rank, *stuck_at(7)) for rank in (0, 1, 3)]
    tracks.append(track(2, *(call(seq=n, line=n % 3) for n in range(3, 7))))

    finding = only(recorded_calls(tracks))

    assert finding.verdict is Verdict.NEVER_JOINED
    assert finding.culprits == (2,)
    assert finding.waiting == finding.affected == (0, 1, 3)
    assert str(finding.call) == "all_reduce #7 of default_pg"
    assert finding.says.startswith("Rank 2 has not joined all_reduce #7 of default_pg")
    assert str(finding.missed) == "all_reduce #6 of default_pg"
    assert finding.quotes[0].quote == "record 6: all_reduce #6 of default_pg [8] Float completed"


def test_counts_alone_tell_who_is_behind() -> None:
    """A dump without any entry still has pg_status: everything enqueued is completed."""
    tracks = [track(rank, *stuck_at(7)) for rank in (0, 1, 3)]
    tracks.append(track(2, enqueued=6, completed=6))

    assert only(recorded_calls(tracks)).culprits == (2,)


def test_watchdog_counts_of_one_group_are_enough() -> None:
    """Without any recorder, the last enqueued and completed call of each rank are enough."""
    tracks = [track(r, kind="watchdog", enqueued=9, completed=8) for r in (0, 1, 2)]
    tracks.append(track(3, kind="watchdog", enqueued=8, completed=8))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (3,))


def test_counters_without_completion_name_the_one_behind() -> None:
    """NCCL's own counters only go up; whoever counts less is behind those ahead."""
    tracks = [track(r, kind="nccl-coll", enqueued=50, completed=None) for r in (0, 1, 2)]
    tracks = [Track(who=t.who, group=t.group, kind=t.kind, source=t.source, enqueued=50)
              for t in tracks]  # fmt: skip
    tracks.append(
        Track(who=Who(rank=3), group=WORLD, kind="nccl-coll", source=Source(file="x"), enqueued=48)
    )

    assert only(recorded_calls(tracks)).culprits == (3,)


def test_the_last_call_of_a_rank_is_the_one_with_the_highest_number() -> None:
    """Calls without a time or a place in the order are told apart by their number."""
    calls = tuple(Call(op="all_reduce", seq=seq) for seq in (41, 42, 43))
    source = Source(file="x")
    tracks = [
        Track(who=Who(rank=rank), group=WORLD, kind="nccl-coll", source=source, enqueued=count,
              calls=calls[: count - 40])
        for rank, count in ((0, 43), (1, 43), (2, 42))
    ]  # fmt: skip

    missed = only(recorded_calls(tracks)).missed

    assert missed is not None
    assert missed.seq == 42


def test_a_rank_that_never_used_the_group_is_behind() -> None:
    """A recorder that speaks, and not of this group, has seen no call of it."""
    pair = Group(name="5", ranks=(0, 1), description="tp")
    tracks = [track(0, call(seq=1, state=OPEN), group=pair), track(1, call(seq=3), group=WORLD)]

    finding = only(recorded_calls([*tracks, track(0, call(seq=3))]))

    assert finding.culprits == (1,)
    assert finding.call is not None
    assert finding.call.group == "tp"


def test_a_skipped_call_is_seen_behind_a_missing_rank() -> None:
    """If the calls fit once one is left out, the rank is behind because it skipped that one."""
    usual = [call(seq=n, line=10 + (n - 1) % 3, order=n) for n in range(1, 9)]
    late = [c for c in usual if c.seq != 5]
    shifted = [
        Call(op=c.op, seq=n, state=DONE, input_sizes=c.input_sizes, dtypes=c.dtypes,
             frames=c.frames, order=n)
        for n, c in enumerate(late, start=1)
    ]  # fmt: skip
    waiting = [*usual[:-1], call(seq=8, state=OPEN, line=11, order=8)]
    tracks = [track(rank, *waiting) for rank in (0, 1, 2)] + [track(3, *shifted)]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.SKIPPED, (3,))
    assert str(finding.missed) == "all_reduce #5 of default_pg"
    assert finding.site is not None
    assert finding.site.line == 11


def test_all_of_several_late_ranks_are_named_in_one_finding() -> None:
    """Two ranks late on two groups are one cause with two parts."""
    left, right = Group(name="1", ranks=(0, 1)), Group(name="2", ranks=(2, 3))
    tracks = [
        track(0, *stuck_at(4), group=left),
        track(1, *(call(seq=n) for n in range(1, 4)), group=left),
        track(2, *stuck_at(9), group=right),
        track(3, *(call(seq=n) for n in range(5, 9)), group=right),
    ]

    finding = only(recorded_calls(tracks))

    assert finding.culprits == (1, 3)
    assert [part.culprits for part in finding.parts] == [(1,), (3,)]


# --- joined, and stuck ----------------------------------------------------------------------


def test_everyone_in_the_same_call_points_below_the_program() -> None:
    """All have joined, none has finished: no rank is to blame."""
    finding = only(recorded_calls([track(rank, *stuck_at(5)) for rank in range(4)]))

    assert finding.verdict is Verdict.ALL_ARRIVED
    assert finding.culprits == ()
    assert finding.waiting == (0, 1, 2, 3)


def test_who_has_not_finished_what_its_peers_have_is_named() -> None:
    """A device that stopped in the middle leaves its call open; peers went on and wait for it."""
    pair = Group(name="7", ranks=(0, 1), description="dp")
    tracks = [track(r, *(call(seq=n) for n in range(1, 6))) for r in (1, 2, 3)]
    tracks.append(track(0, *stuck_at(5)))
    tracks += [
        track(1, call(seq=1, state=OPEN, order=50), group=pair),
        track(0, call(seq=1, state=OPEN, order=60), group=pair),
    ]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.STALLED, (0,))
    assert "has not finished it" in finding.says


def test_a_root_may_finish_a_broadcast_before_the_others_come() -> None:
    """Operations with a root complete early on some ranks; that stalls nobody."""
    tracks = [track(0, call("broadcast", 3))]
    tracks += [track(rank, call("broadcast", 3, OPEN)) for rank in (1, 2)]
    tracks.append(track(3, call(seq=2)))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (3,))


def test_a_broadcast_that_others_have_finished_is_not_one_that_none_finished() -> None:
    """Who still stands in it is told; it proves nobody's fault, since some may finish early."""
    tracks = [track(0, call("broadcast", 3, OPEN))]
    tracks += [track(rank, call("broadcast", 3), call("broadcast", 4)) for rank in (1, 2, 3)]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits, finding.waiting) == (
        Verdict.PARTLY_COMPLETED,
        (),
        (0,),
    )


def test_everything_completed_is_no_collective_hang() -> None:
    """Open calls are what a collective hang is made of."""
    report = recorded_calls([track(rank, call(seq=9)) for rank in range(4)])

    assert only(report).verdict is Verdict.ALL_COMPLETED
    assert str(report.positions[2]) == "after all_reduce #9 of default_pg"
    assert report.waits == ()


def test_no_track_gives_no_finding() -> None:
    """Without evidence nothing is said."""
    report = recorded_calls([])

    assert (report.findings, report.waits, report.positions) == ((), (), {})
