"""What the first looks at a live job leave open, and of which processes a further look tells it."""

from __future__ import annotations

from whyhang.analyzer.case import Case, Stand, Standing
from whyhang.analyzer.describe import busy_worker
from whyhang.analyzer.match.moving import moving
from whyhang.analyzer.motion import Moved
from whyhang.analyzer.waits import WaitKind, undecided
from whyhang.collectors.stacks.peers import ROOTED


def with_a_peer(case: Case) -> list[int]:
    """List the pids of ranks whose call names another rank, in a job where nobody is late.

    Sends and receives, broadcasts and their like. Who is late is the cause without that.
    """
    if case.picture.progress or case.picture.roots:
        return []
    pids = [
        case.member(number).pid
        for meeting in case.picture.meetings
        if meeting.kind is WaitKind.P2P or meeting.op in ROOTED
        for number in meeting.members
    ]
    return [pid for pid in pids if pid is not None]


def late_one_may_come(case: Case) -> bool:
    """Tell whether a rank that others wait for is in what ends by itself, if only it is waited for.

    It runs or sleeps, or its DataLoader's worker does: a step may take longer than two looks.
    """

    def ends_by_itself(stand: Stand) -> bool:
        settled = {Standing.MOVING, Standing.STOPPED, Standing.GONE}
        if stand.standing in settled or not case.picture.meetings:
            return False
        worker = busy_worker(stand)
        places = [stand.place, worker[1] if worker is not None else None]
        return (
            stand.standing is Standing.RUNNING
            or any(p is not None and p.kind in {WaitKind.SLEEP, WaitKind.WORK} for p in places)
            or (starting and stand.motion.moved in {Moved.IN_PLACE, Moved.STIRRED})
        )

    starting = all(meeting.kind is WaitKind.INIT for meeting in case.picture.meetings)
    return any(ends_by_itself(case.stands[number]) for number in case.picture.roots)


def all_in_collectives(case: Case) -> list[int]:
    """List the pids of ranks that all wait in collectives, though perhaps in different steps."""
    waits = {Standing.WAITING, Standing.MAYBE}
    together = all(stand.standing in waits for stand in case.stands)
    if case.picture.progress or len(case.stands) < 2 or not together:
        return []
    pids = [case.member(stand.member).pid for stand in case.stands]
    return [pid for pid in pids if pid is not None]


def all_run(case: Case) -> bool:
    """Tell whether all ranks compute and none waits, so that a step may take longer than a look."""
    runs = {Standing.RUNNING, Standing.MOVING}
    return bool(case.stands) and all(stand.standing in runs for stand in case.stands)


def all_nap(case: Case) -> bool:
    """Tell whether all ranks sleep a while and ran in between, as in a step that paces itself."""
    ran = {Moved.IN_PLACE, Moved.STIRRED}
    return bool(case.stands) and all(
        stand.place is not None and stand.place.kind is WaitKind.SLEEP and stand.motion.moved in ran
        for stand in case.stands
    )


def one_seems_slow(case: Case) -> bool:
    """Tell whether the job moves and the same ranks were behind at nearly all looks.

    On a busy machine that happens by chance: of three ranks, one is last at four looks of five
    in one case of seven, at eight of ten in one of a hundred.
    """
    return bool(moving()(case))


def undecided_pids(case: Case) -> list[int]:
    """List the pids whose Python stack leaves open what they wait for."""
    pids = []
    for stand in case.stands:
        member = case.member(stand.member)
        if stand.place is not None and member.pid is not None and undecided(stand.place):
            pids.append(member.pid)
    return pids
