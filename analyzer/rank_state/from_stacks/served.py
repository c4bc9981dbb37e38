"""Ranks that wait for what others do for them, and get it: results, data, room for more of it.

Each look finds such a rank at the same place. But a wait ends before its limit only when something
has come, so one that has woken up more often than the limit lets it, and is back in it, goes on.
"""

from collections.abc import Iterable

from whyhang.analyzer.facts import StackDump
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.rank_state.over_time.motion import Motion, Moved, python_frames
from whyhang.analyzer.rank_state.state import waits_for_pool
from whyhang.analyzer.stacks import Place, WaitKind
from whyhang.analyzer.stacks.kinds import last_name

OFTEN = 2
"""Times that a rank must have woken up between the snapshots to be seen to be given something."""

_UNLIMITED = {
    "socket.py": {"readinto"},
    "http/client.py": {"send"},
    "ssl.py": {"read", "recv", "recv_into", "write", "send", "sendall"},
    "multiprocessing/connection.py": {"_recv", "_recv_bytes", "_send", "_send_bytes"},
    "concurrent/futures/_base.py": {"result", "as_completed"},
}
"""Functions that wait for what another process sends or takes, or a thread has done, as a rule
without a limit, and their files: where the kernel does not tell of one."""

_LOOKS_FOR_ITSELF = frozenset(
    {WaitKind.STORE, WaitKind.LOCK, WaitKind.SUBPROCESS, WaitKind.DATALOADER}
)
"""Waits in which a program asks time and again, and gets an answer each time or looks after its
workers."""


def is_served(member: Member, place: Place, workers: Iterable[Place | None], moves: Motion) -> bool:
    """Return whether a rank takes what its pools have done, or what is sent to it, bit by bit."""
    if (moves.sleeps or 0) < OFTEN:
        return False
    works = any(worker is not None and worker.kind is WaitKind.WORK for worker in workers)
    return (works and waits_for_pool(place)) or _takes(member, place, moves)


def awaits_another(member: Member, place: Place, moves: Motion) -> bool:
    """Return whether the program that a rank waited for has ended, and it waits for one again.

    One that has ended and was not waited for yet is still there, as a zombie. Where none was seen,
    each was too short; the rank woke up at their ends.
    """
    if place.kind is not WaitKind.SUBPROCESS or not member.processes:
        return False
    own = [h.processes[-1] for h in member.helpers if h.processes]
    looks = [process.look for process in own if process.ppid == member.pid]
    if not looks:
        return moves.moved is Moved.STIRRED and (moves.sleeps or 0) >= OFTEN
    return max(looks) < member.processes[-1].look


def _takes(member: Member, place: Place, moves: Motion) -> bool:
    """Return whether the main thread is in such a wait at every look."""
    if member.dumps and all(map(_is_unlimited, member.dumps)):
        return True
    if place.kind in _LOOKS_FOR_ITSELF or place.through or len(member.processes) < OFTEN:
        return False
    mains = [process.threads[0] for process in member.processes if process.threads]
    limits = [main.limit for main in mains if main.limit is not None]
    if len(limits) < len(member.processes):
        return False
    watched = (member.processes[-1].taken_at or 0.0) - (member.processes[0].taken_at or 0.0)
    return (moves.sleeps or 0) * min(limits) > OFTEN * watched


def _is_unlimited(dump: StackDump) -> bool:
    inner = (f for f in python_frames(dump) if not f.file.endswith("threading.py"))
    frame = next(inner, None)
    return frame is not None and any(
        frame.file.endswith(file) and last_name(frame) in names
        for file, names in _UNLIMITED.items()
    )
