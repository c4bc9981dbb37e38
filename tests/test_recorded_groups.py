"""Recorded calls on several groups: whose they are, who waits across them, which are crossed."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from call_docs import OPEN, call, mesh, only, stuck_at, track

from whyhang.analyzer.collectives import RecordedCalls, Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Group, replace


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


def test_members_that_no_source_lists_are_inferred_and_reported() -> None:
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
    assert [(s.says, s.site.line) for s in finding.sides if s.site is not None] == [
        ("in all_reduce #6 of a", 11),
        ("in all_reduce #6 of b", 21),
    ]


@pytest.mark.parametrize("both", [False, True])
def test_the_rarer_order_is_where_to_look(*, both: bool) -> None:
    """Three ranks take a before b; the one that does not is named."""
    assert only(opposite((0, 1, 2), (3,), both=both)).culprits == (3,)


def test_of_groups_without_members_the_silent_rank_may_turn_the_vote() -> None:
    """Gloo's dumps name no members: where rank 0 wrote none, two against one is no majority."""
    assert only(opposite((0, 1), (2,), both=False, listed=False)).culprits == (2,)
    assert only(opposite((1, 3), (2,), both=False, listed=False)).culprits == ()


def test_waits_from_stacks_move_the_root() -> None:
    """What the recorder takes for idle may wait in something that it does not record."""
    tracks = [track(rank, *stuck_at(7)) for rank in (0, 1)]
    tracks += [track(2, call(seq=6)), track(3, call(seq=6))]
    inside = Call(op="gather_object", state=CallState.INSIDE)
    stack = track(2, inside, kind="stack", group=Group(name="", ranks=(2, 3)))

    assert only(recorded_calls(tracks)).culprits == (2, 3)
    assert only(recorded_calls([*tracks, stack])).culprits == (3,)
