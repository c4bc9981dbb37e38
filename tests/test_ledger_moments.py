"""Dumps of different moments, of a job that runs, and of calls that gloo leaves open or out."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from call_docs import OPEN, call, only, stuck_at, track
from documents import document
from fr_docs import entry, facts, gaps, header, open_entry, pickled

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.commands.diagnose import report_on
from whyhang.analyzer.facts import Call, Track
from whyhang.collectors.flight_recorder.reader import FlightRecorder

SECOND = 1_000_000_000
START = 1_758_610_000


def done(*numbers: int, op: str = "all_reduce") -> tuple[Call, ...]:
    return tuple(call(op, seq=n, line=n % 3) for n in numbers)


def named(tracks: list[Track]) -> set[int]:
    return {rank for f in recorded_calls(tracks).findings if f.cause for rank in f.culprits}


# --- dumps of different moments --------------------------------------------------------------


def test_a_dump_that_others_overtook_blames_nobody() -> None:
    """Who has completed a call beyond it proves that the rank went on after its dump."""
    tracks = [track(r, *stuck_at(9)) for r in (0, 1, 3)] + [track(2, *done(3, 4, 5))]

    report = recorded_calls(tracks)

    assert only(report).verdict is Verdict.WAITS_FOR_ABSENT
    assert only(report).absent == (2,)
    assert "rank 2 left only an older one" in only(report).says
    assert "rank 2 of default_pg: the moment of its dump" in str(report.disagreements[0])


def test_a_rank_that_is_one_call_behind_is_not_overtaken() -> None:
    """What all have completed it has joined; that it lacks the next one is the finding."""
    tracks = [track(r, *stuck_at(9)) for r in (0, 1, 3)] + [track(2, *done(6, 7, 8))]

    assert named(tracks) == {2}


def test_a_finished_broadcast_proves_nothing_of_others() -> None:
    """Its root goes on before anybody has come."""
    tracks = [track(0, *done(8), *done(9, 10, op="broadcast")), track(1, *done(8))]
    tracks += [track(r, *done(8), call("broadcast", 9, OPEN)) for r in (2, 3)]

    assert recorded_calls(tracks).disagreements == ()


def test_a_dump_of_an_earlier_run_is_left_out() -> None:
    """A file with higher numbers and old times does not overtake the dumps of this run."""

    def aged(t: Track, at: float) -> Track:
        calls = tuple(
            Call(op=c.op, seq=c.seq, state=c.state, order=c.order, frames=c.frames,
                 input_sizes=c.input_sizes, dtypes=c.dtypes, created_at=at + (c.seq or 0))
            for c in t.calls)  # fmt: skip
        return Track(who=t.who, group=t.group, kind=t.kind, source=t.source, calls=calls,
                     enqueued=t.enqueued, completed=t.completed)  # fmt: skip

    tracks = [aged(track(r, *stuck_at(9)), START) for r in (0, 2)]
    tracks += [aged(track(1, *done(5, 6, 7, 8)), START)]
    tracks += [aged(track(3, *done(4000, 4001)), START - 90_000)]

    report = recorded_calls(tracks)

    assert only(report).culprits == (1,)
    assert [disagreement.rank for disagreement in report.disagreements] == [3]


# --- gloo ------------------------------------------------------------------------------------


def test_a_call_over_gloo_that_ended_without_a_member_failed_there() -> None:
    """Gloo records a failed call like a finished one; who never came to it is named."""
    tracks = [track(r, *done(6, 7, 8), library="gloo") for r in (0, 1)]
    tracks += [track(2, *stuck_at(8), library="gloo"), track(3, *done(6, 7), library="gloo")]

    report = recorded_calls(tracks)

    assert only(report).culprits == (3,)
    assert {disagreement.rank for disagreement in report.disagreements} == {0, 1}


def test_a_mismatch_over_gloo_counts_those_whose_call_failed() -> None:
    """The ranks whose call broke off are no late ones, and vote in the mismatch."""
    tracks = [track(r, *done(6, 7), call(seq=8), library="gloo") for r in (0, 1)]
    tracks.append(track(2, *done(6, 7), call(seq=8, state=OPEN), library="gloo"))
    tracks.append(track(3, *done(6, 7), call(seq=8, state=OPEN, size=(16,)), library="gloo"))

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.MISMATCH, (3,))


def test_a_rank_that_lags_over_gloo_is_not_stalled() -> None:
    """Gloo tells of the end of a call some time after it, so who is told first proves nothing."""
    tracks = [track(0, *stuck_at(7), library="gloo")]
    tracks += [track(r, *done(5, 6, 7, 8), library="gloo") for r in (1, 2, 3)]

    assert named(tracks) == set()


def test_late_ranks_that_may_receive_out_of_sight_are_not_blamed() -> None:
    """Sends and receives over gloo are in no dump: of two late ranks one may wait for the other."""
    tracks = [track(r, *stuck_at(7), library="gloo", unrecorded=True) for r in (0, 1)]
    tracks += [track(r, *done(5, 6), library="gloo", unrecorded=True) for r in (2, 3)]

    finding = only(recorded_calls(tracks))

    assert (finding.verdict, finding.culprits) == (Verdict.LATE_OR_UNRECORDED, ())
    assert "ranks 2-3 waits for another is not known" in finding.says


def test_a_single_late_rank_with_unrecorded_calls_is_a_possibility() -> None:
    """It is the one to look at first, though it may wait in a receive."""
    tracks = [track(r, *stuck_at(7), library="gloo", unrecorded=True) for r in (0, 1, 3)]
    tracks.append(track(2, *done(5, 6), library="gloo", unrecorded=True))

    finding = only(recorded_calls(tracks))

    assert (finding.culprits, finding.unrecorded) == ((2,), True)


def test_unrecorded_calls_leave_it_open_whether_all_is_done() -> None:
    """That every recorded call is completed is no news where not all are recorded."""
    assert recorded_calls([track(r, *done(7), unrecorded=True) for r in range(4)]).findings == ()


# --- a job that runs -------------------------------------------------------------------------


def test_dumps_of_a_job_that_runs_blame_nobody() -> None:
    """Who seems late was on its way."""
    tracks = [track(r, *stuck_at(7), in_motion=True) for r in (0, 1, 3)]
    tracks.append(track(2, *done(5, 6), in_motion=True))

    report = recorded_calls(tracks)

    assert only(report).verdict is Verdict.IN_MOTION
    assert report.waits == ()


def test_one_silent_rank_among_moving_ones_is_looked_at() -> None:
    """Only if every dump is of a moving rank is the job one that runs."""
    tracks = [track(r, *stuck_at(7), in_motion=True) for r in (0, 1, 3)]
    tracks.append(track(2, *done(5, 6)))

    assert named(tracks) == {2}


def gloo_dump(calls: int, *, pause: float, status: int | None = None, first_pg: int = 0) -> bytes:
    """Write a dump of ``calls`` calls over gloo, a pause apart, the last of them open."""
    entries = [
        (entry if n < calls - 1 else open_entry)(
            n,
            profiling_name="gloo:all_reduce",
            state="scheduled",
            pg_id=first_pg,
            time_created_ns=START * SECOND + int(n * pause * SECOND),
        )
        for n in range(calls)
    ]
    counts = {"last_enqueued_collective": status or calls, "last_started_collective": -1,
              "last_completed_collective": (status or calls) - 1}  # fmt: skip
    return pickled(header(("", "", ()), pg_status={str(first_pg): counts}), entries)


def track_of(data: bytes, written_at: float | None = None) -> Track:
    dump = document(data, "comm_lib_trace_rank_0", taken_at=written_at)
    tracks = [fact for fact in FlightRecorder().read(dump) if isinstance(fact, Track)]
    return tracks[0]


@pytest.mark.parametrize(
    ("silence", "moves"),
    [(0.1, True), (0.35, True), (0.5, False), (600.0, False), (-5.0, False), (None, False)],
)
def test_a_dump_tells_whether_its_rank_went_on(silence: float | None, *, moves: bool) -> None:
    """A silence up to twice the usual pause is none; a file older than its calls tells nothing."""
    last = START + 19 * 0.2

    track = track_of(gloo_dump(20, pause=0.2), None if silence is None else last + silence)

    assert track.in_motion is moves


def test_a_few_calls_have_no_pace() -> None:
    """Times that are made up, or too few, prove no motion."""
    assert not track_of(gloo_dump(5, pause=0.2), START + 1.0).in_motion
    assert not track_of(gloo_dump(20, pause=0.0001), START + 0.002).in_motion


def test_calls_that_gloo_counts_and_does_not_record_are_noticed() -> None:
    """pg_status counts sends and receives; a group without any entry leaves a gap in the ids."""
    assert track_of(gloo_dump(9, pause=0.1, status=30)).unrecorded
    assert track_of(gloo_dump(9, pause=0.1, first_pg=1)).unrecorded
    assert not track_of(gloo_dump(9, pause=0.1)).unrecorded


def test_calls_that_are_not_recorded_are_a_gap() -> None:
    """The report says what the dumps cannot show."""
    (gap,) = gaps(facts(gloo_dump(9, pause=0.1, status=30)))

    assert "calls that gloo does not record" in gap.why
    assert gaps(facts(gloo_dump(9, pause=0.1))) == []


def test_a_report_says_for_whose_dumps_it_waits(tmp_path: Path) -> None:
    """With half of the dumps nobody is blamed, and who must be looked at is said."""
    world = ("0", "default_pg", range(4))
    for rank in (0, 1):
        dump = pickled(header(world), [entry(0), open_entry(1)])
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump)

    report, _ = report_on([], [str(tmp_path)], argparse.Namespace())

    assert report.verdict == "inconclusive"
    assert "for group members among the absent: ranks 2-3 left no record" in report.headline
    assert report.findings[0].culprit_ranks is None


def test_a_rank_that_no_job_has_costs_no_memory(tmp_path: Path) -> None:
    """One damaged number must not make the report list a billion absent ranks."""
    groups = header(("0", "default_pg", (0, 1, 999_999_999)))
    for rank in (0, 1):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(pickled(groups, [open_entry(0)]))

    report, _ = report_on([], [str(tmp_path)], argparse.Namespace())

    assert report.job.world_size is None
    assert [row.rank for row in report.ranks] == [0, 1]


def test_other_versions_of_nccl_that_get_on_are_no_cause(tmp_path: Path) -> None:
    """Dumps of several torch versions side by side: what completed calls together can talk."""
    world = ("0", "default_pg", range(4))
    for rank in range(4):
        entries = [entry(0), entry(1), *([open_entry(2)] if rank != 2 else [])]
        library = "2.26.2" if rank == 1 else "2.27.3"
        dump = pickled(header(world, comm_lib_version=library), entries)
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(dump)

    report, _ = report_on([], [str(tmp_path)], argparse.Namespace())

    assert [(f.signature, f.culprit_ranks) for f in report.findings] == [
        ("missing-rank-in-collective", (2,))
    ]
