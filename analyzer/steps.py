"""Does the job as a whole go on? Told from ranks that came to a wait, left it, or were answered."""

from __future__ import annotations

from whyhang.analyzer.case import Job, Stand, Standing
from whyhang.analyzer.model import Process
from whyhang.analyzer.motion import SPINNING, Moved
from whyhang.analyzer.waits import Place, Scope, WaitKind

IN_STEP = {Standing.WAITING, Standing.MAYBE}
ANSWERED = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.BACKWARD}
"""Waits that sleep until they are answered; a rendezvous or a group's creation polls."""
NAPS = ("hrtimer_nanosleep", "do_nanosleep", "common_nsleep")
"""Kernel functions of a wait that looks again after a nap: waking up is no answer."""
ASLEEP = ("futex", "do_futex")
"""Kernel functions of a wait that another thread ends, as gloo's is."""
STEPS = 4
"""Sleeps between two looks from which a thread that uses a CPU is seen to come and go."""


def standing_by_place(place: Place) -> Standing:
    """Tell from one place alone how a member stands."""
    if place.kind in {WaitKind.STORE, WaitKind.POLL, WaitKind.SLEEP}:
        # A key is no call that others could come to; an unknown wait in the user's own code
        # is taken for a local one, uncertain as its place says.
        return Standing.BLOCKED
    if place.kind is WaitKind.WORK:
        return Standing.RUNNING
    return {
        Scope.RANKS: Standing.WAITING,
        Scope.MAYBE: Standing.MAYBE,
        Scope.LOCAL: Standing.BLOCKED,
        Scope.THREAD: Standing.BLOCKED,
        Scope.IDLE: Standing.IDLE,
        Scope.WORK: Standing.RUNNING,
    }[place.scope]


def progress(job: Job, stands: tuple[Stand, ...]) -> bool | None:
    """Tell whether the job as a whole moves.

    A rank that waits for others and yet woke up between the looks has had an answer from them,
    unless its wait polls or spins; one that came to a wait or left it took part in a step.
    None: it was looked at once only, or nothing counted.
    """
    if any(s.motion.moved is Moved.ON and _took_part(s) for s in stands):
        return True
    waiting = [s for s in stands if s.standing in IN_STEP and s.place is not None]
    if any(_answered(s, job.members[s.member].processes) for s in waiting):
        return True
    unseen = any(s.motion.moved is Moved.UNKNOWN for s in stands)
    return None if unseen or not stands else False


def _took_part(stand: Stand) -> bool:
    """Tell whether a member that moved was in a step with the others at some look."""
    now = stand.place is not None and standing_by_place(stand.place) in IN_STEP
    return now or any(was in IN_STEP for was in stand.earlier)


def _answered(stand: Stand, processes: tuple[Process, ...]) -> bool:
    """Tell whether a wait for others has ended and begun anew between the looks.

    Such a wait sleeps until it is answered, so waking up is an answer. Some poll with naps, and
    some spin: who used a CPU and yet went to sleep time and again computes in between.
    """
    if stand.place is None or stand.place.kind not in ANSWERED or stand.standing not in IN_STEP:
        return False
    if any((process.wchan or "").lstrip("_").startswith(NAPS) for process in processes):
        return False
    motion = stand.motion
    if motion.cpu is None or motion.cpu <= SPINNING:
        return motion.moved is Moved.STIRRED
    return (
        motion.moved in {Moved.STIRRED, Moved.IN_PLACE}
        and (motion.sleeps or 0) >= STEPS
        and bool(processes)
        and (processes[-1].wchan or "").lstrip("_").startswith(ASLEEP)
    )
