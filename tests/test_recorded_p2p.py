"""Recorded sends and receives: which pair, which do not, and who is to blame."""

from __future__ import annotations

from call_docs import DONE, OPEN, at, call, mesh, only, p2p, track

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Frame, Group, replace


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


def test_of_two_who_send_to_one_rank_neither_has_the_wrong_peer_for_sure() -> None:
    """It listens to a third one, which listens to a sender: it is the one that is apart."""
    tracks = [
        *(track(0, p2p("send", 3)), track(2, p2p("send", 3))),
        *(track(1, p2p("recv", 0)), track(3, p2p("recv", 1))),
    ]

    assert only(recorded_calls(tracks)).culprits == (3,)


def test_partners_whose_tags_differ() -> None:
    """They name each other, so neither has the wrong peer."""
    sent, awaited = (replace(p2p(op, 1 - n), tag=1 + n) for n, op in enumerate(("send", "recv")))
    finding = only(recorded_calls([track(0, sent), track(1, awaited)]))

    assert finding.verdict is Verdict.P2P_UNPAIRED
    assert finding.culprits == ()


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
