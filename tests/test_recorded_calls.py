"""Recorded calls: what became of each call, and through whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from whyhang.analyzer.collectives import CallFinding, RecordedCalls, Verdict, recorded_calls
from whyhang.analyzer.collectives.waits import Wait
from whyhang.analyzer.facts import (
    Call,
    CallState,
    Frame,
    Group,
    Source,
    Track,
    Trust,
    Who,
    replace,
)

WORLD = Group(name="0", ranks=(0, 1, 2, 3), description="default_pg")
DONE, OPEN = CallState.COMPLETED, CallState.SCHEDULED


def at(line: int, function: str = "step", *outer: tuple[str, int]) -> tuple[Frame, ...]:
    """Make a stack, innermost first: torch's frame, the user's, and those around it."""
    torch = Frame(function="all_reduce", file="/x/site-packages/torch/distributed/c10d.py", line=1)
    return (torch, *(Frame(function=f, file="/w/train.py", line=n) for f, n in
                     ((function, line), *outer)))  # fmt: skip


def call(
    op: str = "all_reduce",
    seq: int = 1,
    state: CallState = DONE,
    *,
    size: Sequence[int] = (8,),
    out: Sequence[Sequence[int]] | None = None,
    dtype: str = "Float",
    line: int = 10,
    order: int | None = None,
    frames: tuple[Frame, ...] | None = None,
) -> Call:
    return Call(
        op=op,
        seq=seq,
        state=state,
        input_sizes=(tuple(size),) if size is not None else None,
        output_sizes=tuple(tuple(shape) for shape in out) if out is not None else None,
        dtypes=(dtype,) if dtype else (),
        frames=at(line) if frames is None else frames,
        order=seq if order is None else order,
    )


def p2p(
    op: str, peer: int, seq: int = 1, state: CallState = OPEN, *, line: int = 10, order: int = 1
) -> Call:
    return Call(op=op, seq=seq, state=state, p2p=True, peer=peer, frames=at(line), order=order)


def track(
    rank: int,
    *calls: Call,
    group: Group = WORLD,
    kind: str = "flight-recorder",
    enqueued: int | None = None,
    completed: int | None = None,
    look: int = 0,
    file: str | None = None,
    library: str = "nccl",
    unrecorded: bool = False,
    in_motion: bool = False,
) -> Track:
    collectives = [c for c in calls if not c.p2p]
    unfinished = [c.seq or 0 for c in collectives if c.state is not DONE]
    last = max((c.seq or 0 for c in collectives), default=enqueued)
    return Track(
        who=Who(rank=rank, trust=Trust.FILE_NAME),
        group=group,
        kind=kind,
        source=Source(file=file or f"rank_{rank}"),
        enqueued=last if enqueued is None else enqueued,
        completed=(min(unfinished) - 1 if unfinished else last) if completed is None else completed,
        calls=calls,
        look=look,
        library=library,
        unrecorded=unrecorded,
        in_motion=in_motion,
    )


def only(report: RecordedCalls) -> CallFinding:
    causes = [finding for finding in report.findings if finding.cause]
    assert len(causes) == 1, [finding.says for finding in causes]
    return causes[0]


def stuck_at(seq: int, **changes: object) -> tuple[Call, ...]:
    """Give calls of which the last is open."""
    before = [call(seq=n, line=n % 3) for n in range(max(1, seq - 4), seq)]
    return (*before, call(seq=seq, state=OPEN, line=seq % 3, **changes))  # type: ignore[arg-type]


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
    assert finding.quotes[0].text == "record 6: all_reduce #6 of default_pg [8] Float completed"


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


def test_a_skipped_call_is_found_behind_a_missing_rank() -> None:
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


# --- mismatches -----------------------------------------------------------------------------

ODD = {
    "op": call("all_gather", 7, OPEN, line=20),
    "size": call(seq=7, state=OPEN, size=(3, 3), line=20),
    "dtype": call(seq=7, state=OPEN, dtype="Half", line=20),
}


@pytest.mark.parametrize("field", sorted(ODD))
@pytest.mark.parametrize("guilty", [0, 2])
def test_the_minority_of_a_mismatch_is_named(field: str, guilty: int) -> None:
    """Operation, size and type are compared, and rank 0 is a rank like any other."""
    tracks = [track(r, call(seq=7, state=OPEN, line=10)) for r in range(4) if r != guilty]
    tracks.append(track(guilty, ODD[field]))

    finding = only(recorded_calls(tracks))

    assert finding.verdict is Verdict.MISMATCH
    assert finding.field == field
    assert finding.culprits == (guilty,)
    assert not finding.tie
    assert finding.site is not None
    assert finding.site.line == 20
    assert [side.ranks for side in finding.sides][1] == (guilty,)


def test_a_tie_names_nobody() -> None:
    """Two against two is a tie, however the ranks are numbered."""
    tracks = [track(r, call(seq=7, state=OPEN)) for r in (0, 1)]
    tracks += [track(r, call("barrier", 7, OPEN, line=20)) for r in (2, 3)]

    finding = only(recorded_calls(tracks))

    assert finding.tie
    assert finding.culprits == ()
    assert finding.affected == (0, 1, 2, 3)


@pytest.mark.parametrize(("before", "named"), [(24, (1,)), (8, ())])
def test_of_two_even_sides_the_one_that_left_its_habit_is_named(
    before: int, named: tuple[int, ...]
) -> None:
    """Whoever never took this step before is where to look; a few rounds make no habit."""
    pair = Group(name="1", ranks=(0, 1))
    habit = [call(("all_reduce", "broadcast")[n % 2], n, line=n % 2) for n in range(1, before + 1)]
    tracks = [
        track(0, *habit, call("broadcast", before + 1, OPEN, line=1), group=pair),
        track(1, *habit, call("all_gather", before + 1, OPEN, line=30), group=pair),
    ]

    finding = only(recorded_calls(tracks))

    assert finding.culprits == named
    assert finding.by_history == bool(named)
    assert finding.tie != bool(named)


def rounds(count: int) -> list[Call]:
    """Give rounds of three different calls."""
    ops = (("all_reduce", 10), ("broadcast", 11), ("all_gather", 12))
    return [call(ops[n % 3][0], n + 1, line=ops[n % 3][1], order=n) for n in range(3 * count)]


def test_a_skipped_call_is_told_from_the_rounds_before() -> None:
    """The others are in the call that usually comes before the one the odd rank is in."""
    usual = rounds(3)
    tracks = [track(r, *usual, call("all_reduce", 10, OPEN, line=10)) for r in (0, 1, 3)]
    tracks.append(track(2, *usual, call("broadcast", 10, OPEN, line=11)))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.SKIPPED, (2,))
    assert str(finding.missed) == "all_reduce #10 of default_pg"


def test_a_call_made_twice_is_one_too_many() -> None:
    """The odd rank repeats the call before."""
    usual = rounds(3)
    tracks = [track(r, *usual, call("all_reduce", 10, OPEN, line=10)) for r in (0, 1, 3)]
    tracks.append(track(2, *usual, call("all_gather", 10, OPEN, line=12, order=9)))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.EXTRA, (2,))


def test_calls_in_another_order_are_told_from_a_skipped_one() -> None:
    """Where both calls were enqueued, the order alone differs."""
    usual = rounds(2)
    first, second = call("all_reduce", 7, OPEN, line=10), call("broadcast", 8, OPEN, line=11)
    tracks = [track(r, *usual, first, second) for r in (0, 1, 3)]
    swapped = (call("broadcast", 7, OPEN, line=11), call("all_reduce", 8, OPEN, line=10))
    tracks.append(track(2, *usual, *swapped))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.REORDERED, (2,))


def test_a_barrier_behind_the_loop_is_uneven_input() -> None:
    """A rank that ran out of batches stands in the barrier that comes after training."""

    def inside(n: int, state: CallState = DONE) -> Call:
        return call(seq=n, state=state, frames=at(5, "epoch", ("main", 40)))

    loop = [inside(n) for n in range(1, 6)]
    tracks = [track(r, *loop, inside(6, OPEN)) for r in (0, 1, 2)]
    after = call("barrier", 6, OPEN, size=(), dtype="", frames=at(44, "main"))
    tracks.append(track(3, *loop, after))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.LEFT_LOOP, (3,))


def test_a_branch_of_one_rank_within_the_loop_is_a_mismatch() -> None:
    """Another operation further down may well be within the loop, so nothing more is claimed."""
    loop = [call(seq=n, frames=at(5, "epoch", ("main", 40))) for n in range(1, 6)]
    waiting = call(seq=6, state=OPEN, frames=at(5, "epoch", ("main", 40)))
    tracks = [track(r, *loop, waiting) for r in (1, 2, 3)]
    tracks.append(track(0, *loop, call("broadcast", 6, OPEN, frames=at(44, "main"))))

    assert only(recorded_calls(tracks)).verdict is Verdict.MISMATCH


LEGAL = {
    "all_to_all of any size": [call("all_to_all", 3, OPEN, size=(n + 1,)) for n in range(4)],
    "another shape of as many elements": [
        call(seq=3, state=OPEN, size=(2, 4) if n else (8,)) for n in range(4)
    ],
    "gather, whose root alone has outputs": [
        call("gather", 3, OPEN, out=[(4, 8)] if n == 0 else []) for n in range(4)
    ],
    "scatter, whose root alone has inputs": [
        call("scatter", 3, OPEN, size=(4, 8) if n == 0 else None, out=[(8,)],
             dtype="Float" if n == 0 else "") for n in range(4)
    ],
    "all_gather of uneven parts that all expect": [
        call("all_gather", 3, OPEN, size=(n + 1,), out=[(1,), (2,), (3,), (4,)]) for n in range(4)
    ],
    "all_gather into a list and into a tensor": [
        call("all_gather" if n else "all_gather_into_tensor", 3, OPEN) for n in range(4)
    ],
}  # fmt: skip


@pytest.mark.parametrize("what", sorted(LEGAL))
def test_what_may_differ_is_no_mismatch(what: str) -> None:
    """Operations have their own rules of what must agree."""
    tracks = [track(rank, own) for rank, own in enumerate(LEGAL[what])]

    assert only(recorded_calls(tracks)).verdict is Verdict.ALL_ARRIVED


def test_uneven_parts_that_nobody_expects_are_a_mismatch() -> None:
    """An all_gather whose outputs do not list the odd part cannot end."""
    even = [(8,)] * 4
    tracks = [track(r, call("all_gather", 3, OPEN, out=even)) for r in (0, 1, 2)]
    tracks.append(track(3, call("all_gather", 3, OPEN, size=(5,), out=even)))

    finding = only(recorded_calls(tracks))

    assert (finding.field, finding.culprits) == ("size", (3,))


# --- groups ---------------------------------------------------------------------------------


def test_equal_names_on_disjoint_ranks_are_different_groups() -> None:
    """Each tensor-parallel group is "tp"; a rank of one is not missing in the other."""
    left = Group(name="tp", ranks=(0, 1), description="tp")
    right = Group(name="tp", ranks=(2, 3), description="tp")
    tracks = [
        track(0, *stuck_at(9), group=left),
        track(1, call(seq=8), group=left),
        track(2, call(seq=20), group=right),
        track(3, call(seq=20), group=right),
    ]

    report = recorded_calls(tracks)

    assert only(report).culprits == (1,)
    assert sorted(line.name for line in report.groups) == ["tp (ranks 0-1)", "tp (ranks 2-3)"]


def test_members_that_no_source_lists_are_inferred_and_said() -> None:
    """Gloo's recorder names no ranks: those that use the name are in the group."""
    nameless = Group(name="3")
    tracks = [track(r, *stuck_at(4), group=nameless) for r in (0, 2)]
    tracks.append(track(5, call(seq=3), group=nameless))

    finding = only(recorded_calls(tracks))

    assert finding.culprits == (5,)
    assert finding.inferred


def test_the_default_group_has_all_ranks_of_the_job() -> None:
    """Where the world's size is known, its group is not guessed."""
    world = Group(name="0", description="default_pg")
    tracks = [track(r, *stuck_at(4), group=world) for r in (0, 1)]

    finding = only(recorded_calls(tracks, world_size=4))

    assert finding.verdict is Verdict.WAITS_FOR_ABSENT
    assert finding.absent == (2, 3)
    assert not finding.inferred


def test_one_known_member_cannot_be_all() -> None:
    """A group of which only one rank is known has others, and nobody is blamed."""
    tracks = [track(0, *stuck_at(1), group=Group(name="9")), track(1, call(seq=4)),
              track(0, call(seq=4, order=1))]  # fmt: skip

    finding = only(recorded_calls(tracks))

    assert finding.verdict is Verdict.WAITS_FOR_ABSENT
    assert finding.culprits == ()
    assert "not known" in finding.says


def test_absent_ranks_are_not_blamed() -> None:
    """With 4 of 16 dumps, what the present ones prove is said: they wait for the absent."""
    world = Group(name="0", ranks=tuple(range(16)), description="default_pg")
    tracks = [track(r, *stuck_at(4), group=world) for r in (1, 5, 6, 12)]

    finding = only(recorded_calls(tracks))

    assert finding.verdict is Verdict.WAITS_FOR_ABSENT
    assert finding.culprits == ()
    assert finding.absent == tuple(r for r in range(16) if r not in {1, 5, 6, 12})
    assert "group members among the absent: ranks 0,2-4,7-11,13-15" in finding.says


def test_a_present_culprit_is_proven_even_if_others_are_absent() -> None:
    """What is known to be behind is behind, whatever the absent do."""
    world = Group(name="0", ranks=tuple(range(16)), description="default_pg")
    tracks = [track(r, *stuck_at(4), group=world) for r in (1, 5, 6)]
    tracks.append(track(12, call(seq=3), group=world))

    assert only(recorded_calls(tracks)).culprits == (12,)


# --- across groups --------------------------------------------------------------------------


def mesh(*ranks: int, name: str) -> Group:
    return Group(name=name, ranks=ranks, description=name)


def test_a_chain_of_groups_ends_at_its_root() -> None:
    """0 waits for 1 (tp), 1 for 3 (dp), 3 for 7 (pp): 7 is the cause, the others are effects."""
    tp, dp, pp = mesh(0, 1, name="tp"), mesh(1, 3, name="dp"), mesh(3, 7, name="pp")
    tracks = [
        track(0, *stuck_at(5), group=tp), track(1, call(seq=4), group=tp),
        track(1, call(seq=3, state=OPEN, order=9), group=dp), track(3, call(seq=2), group=dp),
        track(3, call(seq=8, state=OPEN, order=9), group=pp), track(7, call(seq=7), group=pp),
    ]  # fmt: skip

    finding = only(recorded_calls(tracks))

    assert finding.culprits == (7,)
    assert finding.call is not None
    assert finding.call.group == "pp"
    assert finding.affected == (0, 1, 3)


def opposite(
    first: Iterable[int], second: Iterable[int], *, both: bool, listed: bool = True
) -> RecordedCalls:
    """Let some ranks take group a before b, and some b before a; ``both``: asynchronously.

    ``listed``: the dumps name the members of their groups.
    """
    a, b = mesh(0, 1, 2, 3, name="a"), mesh(0, 1, 2, 3, name="b")
    if not listed:
        a, b = replace(a, ranks=None), replace(b, ranks=None)
    tracks = []
    for ranks, groups, lines in ((first, (a, b), (11, 12)), (second, (b, a), (21, 22))):
        for rank in ranks:
            calls = [call(seq=6, state=OPEN, order=o, line=n) for o, n in enumerate(lines)]
            tracks.append(track(rank, calls[0], group=groups[0]))
            tracks.append(track(rank, calls[1] if both else call(seq=5), group=groups[1]))
    return recorded_calls(tracks)


@pytest.mark.parametrize("both", [False, True])
def test_groups_in_opposite_order_are_a_cycle_with_both_lines(*, both: bool) -> None:
    """Whether the calls block or are enqueued asynchronously, the circle is shown."""
    finding = only(opposite((0, 1), (2, 3), both=both))

    assert finding.verdict is Verdict.CROSS_GROUP
    assert finding.culprits == ()
    assert finding.cycle is not None
    assert [(str(s.call), s.site.line) for s in finding.sides if s.site is not None] == [
        ("all_reduce #6 of a", 11),
        ("all_reduce #6 of b", 21),
    ]


@pytest.mark.parametrize("both", [False, True])
def test_the_rarer_order_is_where_to_look(*, both: bool) -> None:
    """Three ranks take a before b; the one that does not is named."""
    assert only(opposite((0, 1, 2), (3,), both=both)).culprits == (3,)


def test_of_groups_without_members_the_rank_that_is_not_heard_may_turn_the_vote() -> None:
    """Gloo's dumps name no members: where rank 0 wrote none, two against one is no majority."""
    assert only(opposite((0, 1), (2,), both=False, listed=False)).culprits == (2,)
    assert only(opposite((1, 3), (2,), both=False, listed=False)).culprits == ()


def test_waits_from_stacks_move_the_root() -> None:
    """What the recorder takes for idle may wait in something that it does not record."""
    tracks = [track(rank, *stuck_at(7)) for rank in (0, 1)]
    tracks += [track(2, call(seq=6)), track(3, call(seq=6))]
    waits = [Wait(waiter=2, on=frozenset((3,)))]

    assert only(recorded_calls(tracks)).culprits == (2, 3)
    assert only(recorded_calls(tracks, waits=waits)).culprits == (3,)


# --- sends and receives ---------------------------------------------------------------------


def test_both_receive() -> None:
    """Two ranks that receive from each other wait in a circle, and neither is to blame alone."""
    finding = only(recorded_calls([track(0, p2p("recv", 1)), track(1, p2p("recv", 0))]))

    assert finding.verdict is Verdict.P2P_UNPAIRED
    assert finding.culprits == ()
    assert finding.waiting == (0, 1)


def test_a_send_past_the_one_who_listens() -> None:
    """1 sends to 3, who listens to 2, who listens to 1: the sender has the wrong peer."""
    tracks = [track(1, p2p("send", 3)), track(2, p2p("recv", 1)), track(3, p2p("recv", 2))]

    assert only(recorded_calls(tracks)).culprits == (1,)


def test_a_peer_never_named_before_is_the_wrong_one() -> None:
    """Habit at one line of code tells which of two ranks is wrong."""
    before = [p2p("send", 1, seq=n, state=DONE, line=33, order=n) for n in range(1, 4)]
    tracks = [
        track(0, *before, p2p("send", 2, seq=4, line=33, order=4)),
        track(2, p2p("recv", 1)),
        track(1, p2p("recv", 0)),
    ]

    assert only(recorded_calls(tracks)).culprits == (0,)


def test_a_rank_that_does_not_answer_a_send_and_waits_for_nobody() -> None:
    """A stage that stopped leaves its neighbours waiting; it is missing, not mismatched."""
    tracks = [track(0, p2p("send", 1)), track(1, p2p("recv", 9, state=DONE))]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (1,))
    assert finding.waiting == (0,)


def test_a_pair_that_met_and_does_not_finish_is_stuck_below() -> None:
    """Both sides have posted; neither is to blame."""
    finding = only(recorded_calls([track(0, p2p("send", 1)), track(1, p2p("recv", 0))]))

    assert finding.verdict is Verdict.ALL_ARRIVED


def test_who_listens_to_another_than_sends_to_it_has_the_wrong_peer() -> None:
    """In the first step there is no habit yet; another sends to it in vain."""
    size = 6
    tracks = [
        track(
            rank,
            p2p("send", (rank + 1) % size, line=10),
            p2p("recv", (rank - (2 if rank == 3 else 1)) % size, line=11),
        )
        for rank in range(size)
    ]

    assert [f.culprits for f in recorded_calls(tracks).findings if f.culprits] == [(3,)]


def test_the_last_of_a_small_ring_sends_to_its_first() -> None:
    """Distances are those within the group: 3 sends to 0, 7 to 4, as everybody to the next."""
    rings = [mesh(0, 1, 2, 3, name="a"), mesh(4, 5, 6, 7, name="b")]
    tracks = [
        track(rank, p2p("send", ring.ranks[(n + 1) % 4]), group=ring, enqueued=0)
        for ring in rings
        for n, rank in enumerate(ring.ranks or ())
        if rank != 4 and ring.ranks is not None
    ]
    tracks.append(track(4, call(seq=3), group=rings[1]))

    assert not {3, 7} & {r for finding in recorded_calls(tracks).findings for r in finding.culprits}


def test_one_line_of_the_user_may_stand_above_sends_of_several_kinds() -> None:
    """A framework sends activations on and gradients back; neither is an odd one out."""

    def below(function: str) -> tuple[Frame, ...]:
        library = Frame(function=function, file="/lib/megatron/core/p2p.py", line=len(function))
        return (library, *at(10))

    pipe = mesh(0, 1, 2, 3, name="pipe")
    tracks = [
        track(0, replace(p2p("recv", 1), frames=below("recv_backward")), group=pipe),
        track(1, replace(p2p("recv", 2), frames=below("recv_backward")), group=pipe),
        track(2, replace(p2p("recv", 3), frames=below("recv_backward")), group=pipe),
        track(3, replace(p2p("recv", 2), frames=below("recv_forward")), group=pipe),
    ]

    assert only(recorded_calls(tracks)).culprits == ()


def test_a_peer_without_a_record_is_not_blamed() -> None:
    """A receive from an absent rank waits for the absent."""
    finding = only(recorded_calls([track(0, p2p("recv", 5))]))

    assert (finding.verdict, finding.absent) == (Verdict.WAITS_FOR_ABSENT, (5,))


def test_a_send_queued_behind_another_call_waits_for_that_one() -> None:
    """2 has posted the receive, but stands in a collective that 3 has not joined."""
    tp = mesh(2, 3, name="tp")
    tracks = [
        track(0, p2p("send", 2)),
        track(2, p2p("recv", 0, order=8)),
        track(2, call(seq=5, state=OPEN, order=7), group=tp),
        track(3, call(seq=4), group=tp),
    ]

    finding = only(recorded_calls(tracks))

    assert finding.culprits == (3,)
    assert finding.affected == (0, 2)


def test_a_coalesced_block_that_was_never_closed() -> None:
    """Whoever opened it has launched nothing, and its peers wait."""
    unclosed = Call(
        op="send", seq=2, state=OPEN, p2p=True, peer=0, frames=at(5), order=3, unclosed=True
    )
    finding = only(recorded_calls([track(0, p2p("recv", 1)), track(1, unclosed)]))

    assert (finding.verdict, finding.culprits) == (Verdict.COALESCED_OPEN, (1,))


def test_peers_seen_in_stacks_count() -> None:
    """Gloo records no sends; stacks with arguments fill that in."""
    nowhere = Group(name="")
    calls = {
        0: Call(op="recv", state=CallState.INSIDE, p2p=True, peer=1),
        1: Call(op="recv", state=CallState.INSIDE, p2p=True, peer=0),
    }
    tracks = [track(r, call(seq=4)) for r in (0, 1)]
    tracks += [track(r, own, group=nowhere, kind="stack") for r, own in calls.items()]

    report = recorded_calls(tracks)

    assert only(report).verdict is Verdict.P2P_UNPAIRED
    assert str(report.positions[0]) == "in recv from rank 1"


# --- sources --------------------------------------------------------------------------------


def test_disagreements_are_kept_and_said() -> None:
    """The recorder is believed before a watchdog line, and both are cited."""
    tracks = [track(r, *stuck_at(7)) for r in range(4)]
    tracks.append(track(1, kind="watchdog", enqueued=9, completed=6, file="job.log"))

    report = recorded_calls(tracks)

    (disagreement,) = report.disagreements
    assert str(disagreement) == (
        "rank 1 of default_pg: last enqueued: #7 (flight-recorder), but #9 (watchdog)"
    )
    assert [str(source) for source in disagreement.sources] == ["rank_1", "job.log"]
    assert only(report).verdict is Verdict.ALL_ARRIVED


def test_a_stack_in_another_call_than_the_record_is_said() -> None:
    """The record is believed, for a stack may be of another moment."""
    inside = Call(op="broadcast", state=CallState.INSIDE)
    tracks = [track(r, *stuck_at(7)) for r in range(4)]
    tracks.append(track(2, inside, group=Group(name=""), kind="stack", file="stack"))

    (disagreement,) = recorded_calls(tracks).disagreements

    assert disagreement.other == "its stack shows broadcast"


def test_of_two_dumps_of_a_rank_the_newer_is_believed() -> None:
    """A dump that an earlier run left behind must not count."""
    tracks = [track(r, *stuck_at(7)) for r in range(4)]
    tracks = [
        Track(who=t.who, group=t.group, kind=t.kind, source=t.source, enqueued=t.enqueued,
              completed=t.completed,
              calls=tuple(
                  Call(op=c.op, seq=c.seq, state=c.state, created_at=100.0 + (c.seq or 0),
                       order=c.order) for c in t.calls))
        for t in tracks
    ]  # fmt: skip
    old = track(3, Call(op="all_reduce", seq=2, state=OPEN, created_at=5.0, order=2), file="old/3")

    report = recorded_calls([old, *tracks])

    assert only(report).verdict is Verdict.ALL_ARRIVED
    assert "old/3" in str(report.disagreements[0])


def test_the_last_snapshot_counts() -> None:
    """What ranks did in an earlier snapshot they no longer do."""
    tracks = [track(r, *stuck_at(7), look=0) for r in range(4)]
    tracks += [track(r, *stuck_at(8 if r else 7), look=1) for r in range(4)]

    report = recorded_calls(tracks)

    assert only(report).culprits == (0,)


def test_tracks_without_a_rank_are_left_out() -> None:
    """Whoever identifies ranks does so before."""
    nobody = Track(who=Who(pid=7), group=WORLD, kind="flight-recorder", source=Source(file="x"))

    assert recorded_calls([nobody]) == recorded_calls([])


def test_numbers_that_may_be_of_sends_are_not_compared() -> None:
    """pg_status of a pipeline group counts sends; a rank with nothing else is not "ahead"."""
    pipe = mesh(0, 1, name="pp")
    tracks = [
        track(0, p2p("recv", 1, seq=40), group=pipe, enqueued=3, completed=3),
        track(1, group=pipe, enqueued=39, completed=39),
    ]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.NEVER_JOINED, (1,))
