"""The sequence of calls that a rank issued, and when two calls are the same step of a program.

Only few ranks are ever looked at in this way, with all that their recorder holds.
"""

from collections.abc import Callable, Hashable

from whyhang.analyzer.collectives.groups import GroupProgress, JobCalls
from whyhang.analyzer.collectives.mismatch import elements, family
from whyhang.analyzer.collectives.pending import IssuedCall, issued
from whyhang.analyzer.facts import Call

MAX_CALLS = 2000

Step = Callable[[IssuedCall], Hashable]


def collectives_of(progress: GroupProgress) -> dict[int, Call]:
    """Return all collectives of a rank on a group by number, reading the source once more."""
    calls = dict(progress.calls)
    for track in progress.tracks:
        if track.detail is not None:
            for call in track.detail():
                if not call.p2p and call.seq is not None:
                    calls.setdefault(call.seq, call)
    return calls


def p2p_of(progress: GroupProgress) -> tuple[Call, ...]:
    """Return all sends and receives of a rank on a group, oldest first, reading the source anew."""
    read = (track.detail() for track in progress.tracks if track.detail is not None)
    whole = next((calls for calls in read if calls), progress.p2p)
    return tuple(call for call in whole if call.p2p)


def issued_by(job: JobCalls, rank: int) -> list[IssuedCall]:
    """List the latest recorded calls of a rank, over all groups, in the order of issue."""
    calls = [
        issued(group, progress, call)
        for group in job.groups
        if (progress := group.progress.get(rank)) is not None and progress.tracks
        for call in (*collectives_of(progress).values(), *p2p_of(progress))
        if call.order is not None
    ]
    return sorted(calls, key=lambda each: each.call.order or 0)[-MAX_CALLS:]


def step_of_role(issued: IssuedCall) -> Hashable:
    """Identify a step on any rank of the same role: what, where in the code, how many take part."""
    call = issued.call
    site = issued.site
    place = (site.file, site.line) if site is not None else None
    return (family(call.op), call.p2p, place, len(issued.members))


def step_of_rank(issued: IssuedCall) -> Hashable:
    """Identify a step of one rank: on which group and with whom, too."""
    return (step_of_role(issued), issued.index, issued.call.peer)


def with_contents(step: Step) -> Step:
    """Tell steps apart by what they carry, too."""
    return lambda issued: (step(issued), elements(issued.call), issued.call.dtypes)
