"""Recorded calls of one rank from several sources: which is believed."""

from __future__ import annotations

from call_docs import OPEN, WORLD, mesh, only, p2p, stuck_at, track

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Group, Source, Track, Who


def test_disagreements_are_kept_and_reported() -> None:
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


def test_a_stack_in_another_call_than_the_record_is_reported() -> None:
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
