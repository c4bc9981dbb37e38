"""The collective ledger: all evidence of how far each rank came, merged in one place.

``judge(tracks, groups, world_size, waits=...)`` takes every ``Track`` there is (flight recorder,
watchdog lines, fingerprints, NCCL counters, RAS, stacks) and gives a ``LedgerReport``. Tracks
without a rank are left out: whoever identifies the ranks fills ``track.who.rank`` in before.

Reading the report:

* ``findings``: causes first. Each has a ``verdict``, ``culprits`` (may be empty), ``call``,
  ``waiting``, ``affected``, ``sides`` for a mismatch, ``cycle`` for a deadlock, ``sources``.
* ``waits``: edges for ``graph.roots`` and ``graph.cycles``; add those read off stacks to them,
  or hand the latter in as ``waits=`` so that the findings take them into account.
* ``activity_of(rank)``: "in all_reduce #133 of default_pg".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.collectives.findings import find
from whyhang.analyzer.collectives.graph import Wait, cycles, roots
from whyhang.analyzer.collectives.groups import GroupCalls, JobCalls, job_calls
from whyhang.analyzer.collectives.heads import find_heads
from whyhang.analyzer.collectives.meet import collective_waits, meetings
from whyhang.analyzer.collectives.moments import (
    failed,
    forget,
    in_motion,
    overtaken,
    running,
    with_open,
)
from whyhang.analyzer.collectives.p2p import pair_waits, pairings
from whyhang.analyzer.collectives.parting import parted
from whyhang.analyzer.collectives.records import (
    Disagreement,
    Finding,
    GroupLine,
    LedgerReport,
    Quote,
    Side,
    Spot,
    Verdict,
)
from whyhang.analyzer.collectives.scene import Scene, place
from whyhang.analyzer.facts import Group, Track, replace

__all__ = [
    "Disagreement",
    "Finding",
    "GroupLine",
    "LedgerReport",
    "Quote",
    "Side",
    "Spot",
    "Verdict",
    "judge",
]


def judge(
    tracks: Iterable[Track],
    groups: Iterable[Group] = (),
    world_size: int | None = None,
    *,
    waits: Sequence[Wait] = (),
) -> LedgerReport:
    """Merge all tracks and say what became of the calls.

    ``waits`` are more edges of the wait graph, read off stacks; members are ranks there.
    """
    tracks, groups = list(tracks), list(groups)
    job = job_calls(tracks, groups, world_size)
    unsure = failed(job)
    if older := overtaken(job):
        job = job_calls(forget(tracks, older), groups, world_size)
        job = replace(job, disagreements=(*job.disagreements, *older.values()))
    job = with_open(job, unsure)
    job = replace(job, groups=tuple(parted(group) for group in job.groups))
    heads = find_heads(job)
    found = meetings(job, heads)
    known = job.present | set(job.stacks) | {wait.waiter for wait in waits}
    pairs = pairings(job, heads, known)
    own = (*collective_waits(found), *pair_waits(job, pairs))
    if running(job):
        return LedgerReport(
            findings=(in_motion(job),),
            spots=heads.spots,
            groups=tuple(_line(group) for group in job.groups),
            disagreements=_disagreements(job, heads.doubts),
            moved=job.moved,
        )
    every = (*own, *waits)
    scene = Scene(
        job=job,
        heads=heads,
        meetings=found,
        pairings=pairs,
        waits=own,
        roots=roots(every, known),
        cycles=cycles(every),
        meeting_by_place={place(meeting): meeting for meeting in found},
    )
    return LedgerReport(
        findings=find(scene),
        waits=own,
        roots=scene.roots,
        cycles=scene.cycles,
        spots=heads.spots,
        groups=tuple(_line(group) for group in job.groups),
        disagreements=_disagreements(job, heads.doubts),
        moved=job.moved,
    )


def _disagreements(job: JobCalls, doubts: Sequence[Disagreement]) -> tuple[Disagreement, ...]:
    return (*job.disagreements, *doubts)


def _line(group: GroupCalls) -> GroupLine:
    return GroupLine(
        group=group.pg,
        name=group.name,
        kind=group.space,
        enqueued={rank: progress.enqueued for rank, progress in group.progress.items()},
        completed={rank: progress.completed for rank, progress in group.progress.items()},
        absent=tuple(sorted(group.absent)),
    )
