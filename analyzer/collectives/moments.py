"""Whether the recorder dumps show one moment, and a job that stands still.

Dumps are taken rank by rank, and a file of an earlier time may lie beside newer ones. A call
that takes every member's part and is completed on one rank has been joined by all of them: a
dump of a member that ends before it is older, and does not tell where that rank stands now.
Over gloo there is another reading: a call that failed is recorded like one that went well. So where
a call is the last of all on a rank that others have not joined, it may have failed there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from whyhang.analyzer.collectives.compare import ROOTED, split
from whyhang.analyzer.collectives.groups import (
    OVERTAKEN,
    RECORDER,
    GroupCalls,
    GroupProgress,
    JobCalls,
)
from whyhang.analyzer.collectives.records import Disagreement, Finding, Quote, Verdict
from whyhang.analyzer.collectives.words import ranks_in_words, record
from whyhang.analyzer.facts import Call, CallState, Record, Source, Track, replace

OTHER_RUN = 60.0
"""Seconds that a dump may seem to be newer than one that overtook it: clocks differ."""


def overtaken(job: JobCalls) -> dict[int, Disagreement]:
    """Find the ranks whose dumps others overtook, each with what shows it."""
    found: dict[int, Disagreement] = {}
    newest = _newest_calls(job)
    ends = {id(call) for _, call in _last_calls(job).values()}
    for group in job.groups:
        passed = _passed(group, ends)
        if passed is None:
            continue
        number, witness = passed
        behind = [
            rank
            for rank, progress in group.progress.items()
            if _recorded(progress) and progress.exact and (progress.enqueued or 0) < number
        ]
        # Calls that were issued long after the other dump's last one cannot be overtaken by it.
        later = [r for r in behind if newest.get(r, 0.0) > newest.get(witness, 0.0) + OTHER_RUN]
        if later:
            found.setdefault(witness, _said(group, witness, later[0], "an earlier run"))
        else:
            for rank in behind:
                found.setdefault(rank, _said(group, rank, witness, f"before #{number}"))
    return found


def forget(tracks: Iterable[Track], ranks: Mapping[int, object]) -> list[Track]:
    """Keep of some ranks' dumps only that there are such ranks and which groups they use."""
    return [
        replace(
            track,
            kind=OVERTAKEN,
            enqueued=None,
            started=None,
            completed=None,
            calls=(),
            detail=None,
        )
        if track.kind == RECORDER and track.who.rank in ranks
        else track
        for track in tracks
    ]


class Failed(Record):
    """A call of one rank, on the group of this name, that counts as finished and may not be."""

    group: str
    rank: int
    seq: int
    said: Disagreement


def failed(job: JobCalls) -> list[Failed]:
    """Find calls over gloo that count as finished on a rank and went no further."""
    return [
        Failed(
            group=group.name,
            rank=rank,
            seq=call.seq or 0,
            said=_broken_off(group, rank, call),
        )
        for rank, (group, call) in _last_calls(job).items()
        if call.state is CallState.COMPLETED and _may_have_failed(group, rank, call)
    ]


def with_open(job: JobCalls, calls: Iterable[Failed]) -> JobCalls:
    """Take those calls for unfinished ones."""
    groups = {group.name: group for group in job.groups if group.space == "torch"}
    said = []
    for found in calls:
        own = groups[found.group].progress[found.rank] if found.group in groups else None
        if own is None or found.seq not in own.calls:
            continue
        call = replace(own.calls[found.seq], state=CallState.SCHEDULED)
        groups[found.group].progress[found.rank] = replace(
            own, calls={**own.calls, found.seq: call}, completed=found.seq - 1
        )
        said.append(found.said)
    return replace(job, disagreements=(*job.disagreements, *said)) if said else job


def running(job: JobCalls) -> bool:
    """Tell whether every dump was written while its rank went on, and none is missing."""
    own = [s for group in job.groups for s in group.progress.values() if s.known]
    if any(group.absent and not group.inferred for group in job.groups):
        return False
    return bool(own) and all(s.tracks and all(t.in_motion for t in s.tracks) for s in own)


def in_motion(job: JobCalls) -> Finding:
    """Say that the dumps are of a job that ran."""
    quotes: list[Quote] = []
    for group in job.groups:
        for rank, progress in group.progress.items():
            if progress.source is not None and progress.calls and len(quotes) < MAX_QUOTED:
                text = record(progress.calls[max(progress.calls)], group.name)
                quotes.append(Quote(rank=rank, source=progress.source, text=text))
    return Finding(
        verdict=Verdict.IN_MOTION,
        says=f"The dumps of {ranks_in_words(job.present)} were written while the ranks still "
        "went on: the newest call of each is no older than the pauses it makes anyway",
        quotes=tuple(quotes),
        sources=tuple(dict.fromkeys(quote.source for quote in quotes)),
    )


MAX_QUOTED = 3


def _recorded(progress: GroupProgress) -> bool:
    """Tell whether a recorder shows how far a rank came, be it by its silence."""
    return not progress.tracks or progress.tracks[0].kind == RECORDER


def _passed(group: GroupCalls, ends: Collection[int]) -> tuple[int, int] | None:
    """Find the last number that some rank is through with and that takes everyone's part.

    ``ends`` are the calls that ranks issued last: those may have failed, over gloo.
    """
    if group.space != "torch" or len(group.members) < 2:
        return None
    best: tuple[int, int] | None = None
    for rank, progress in group.progress.items():
        if not progress.tracks or not _recorded(progress) or not progress.exact:
            continue
        for seq, call in progress.calls.items():
            joint = call.op and call.op not in ROOTED and call.state is CallState.COMPLETED
            if id(call) in ends and progress.over_gloo and not _may_move(group, seq):
                continue
            if joint and (best is None or seq > best[0]):
                best = seq, rank
    return best


def _may_move(group: GroupCalls, seq: int) -> bool:
    """Tell whether a rank that has not joined a call was still going on."""
    behind = (progress for progress in group.progress.values() if (progress.enqueued or 0) < seq)
    return any(track.in_motion for progress in behind for track in progress.tracks)


def _newest_calls(job: JobCalls) -> dict[int, float]:
    """Say when each rank issued its newest call."""
    newest: dict[int, float] = {}
    for group in job.groups:
        for rank, progress in group.progress.items():
            times = [
                c.created_at for c in (*progress.calls.values(), *progress.p2p) if c.created_at
            ]
            newest[rank] = max((newest.get(rank, 0.0), *times))
    return newest


def _last_calls(job: JobCalls) -> dict[int, tuple[GroupCalls, Call]]:
    """Give the call that each rank issued last."""
    last: dict[int, tuple[GroupCalls, Call]] = {}
    for group in job.groups:
        for rank, progress in group.progress.items():
            for call in (*progress.calls.values(), *progress.p2p):
                if rank not in last or (call.order or 0) > (last[rank][1].order or 0):
                    last[rank] = group, call
    return last


def _may_have_failed(group: GroupCalls, rank: int, call: Call) -> bool:
    """Tell whether a call over gloo that counts as finished had not brought its group together."""
    own = group.progress[rank]
    if call.p2p or call.seq is None or not own.over_gloo:
        return False
    known = {r: s for r, s in group.progress.items() if s.tracks and s.enqueued is not None}
    if any((other.enqueued or 0) < call.seq for other in known.values()):
        return True
    calls = {r: s.calls[call.seq] for r, s in known.items() if call.seq in s.calls}
    return split(calls, group.members) is not None


def _broken_off(group: GroupCalls, rank: int, call: Call) -> Disagreement:
    source = group.progress[rank].source
    return Disagreement(
        rank=rank,
        group=group.name,
        what=f"the end of {call.op} #{call.seq}",
        believed="not all of the group have joined it, or not with the same call",
        other="it counts as finished on this rank: it may have failed there",
        sources=(source,) if source is not None else (),
    )


def _said(group: GroupCalls, rank: int, other: int, when: str) -> Disagreement:
    sources = (group.progress[rank].source, group.progress[other].source)
    return Disagreement(
        rank=rank,
        group=group.name,
        what="the moment of its dump",
        believed=f"rank {other}'s is newer",
        other=f"its own is of {when}, and was left out",
        sources=tuple(source for source in sources if isinstance(source, Source)),
    )
