"""Recorded calls that do not match: in operation, size, order or number."""

from __future__ import annotations

import pytest
from call_docs import DONE, OPEN, at, call, only, track

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Group

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


def test_a_skipped_call_is_distinguished_from_the_rounds_before() -> None:
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


def test_calls_in_another_order_are_distinguished_from_a_skipped_one() -> None:
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


@pytest.mark.parametrize("times", [4, 1])
def test_a_coalesced_block_whose_outputs_hold_its_inputs_several_times_is_of_gathers(
    times: int,
) -> None:
    """Its sizes must agree; those of coalesced sends and receives need not."""
    sizes = (8, 8, 8, 5)
    calls = [call("coalesced", 3, OPEN, size=(n,), out=[(n * times,)]) for n in sizes]
    finding = only(recorded_calls([track(rank, own) for rank, own in enumerate(calls)]))

    assert (finding.verdict is Verdict.MISMATCH) is (times > 1)
