"""The state of one rank, all evidence taken together."""

import enum

from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.facts import Frame, Record
from whyhang.analyzer.rank_state.from_logs.ends import End
from whyhang.analyzer.rank_state.from_logs.last_phase import LastPhase
from whyhang.analyzer.rank_state.over_time.beats import Pulse
from whyhang.analyzer.rank_state.over_time.motion import Motion
from whyhang.analyzer.stacks import PROCESS_POOL, Place, WaitKind


class Status(enum.Enum):
    """Whether a member waits for others, works or has ended, all evidence taken together."""

    WAITING = "waiting"  # on other ranks
    MAYBE = "maybe"  # perhaps on other ranks
    BLOCKED = "blocked"  # on something local
    RUNNING = "running"  # on nothing
    STOPPED = "stopped"  # by a signal or a debugger
    MOVING = "moving"  # it went on between the snapshots
    IDLE = "idle"  # it has nothing to do
    GONE = "gone"  # dead
    UNSEEN = "unseen"  # no stack and no process state says anything


IN_STEP = {Status.WAITING, Status.MAYBE}
"""Waiting for other ranks, or perhaps."""

NOT_WAITING = {Status.BLOCKED, Status.RUNNING, Status.STOPPED, Status.MOVING, Status.GONE}
"""Statuses that prove that a rank is in no collective of the others."""


class LongStep(Record):
    """The step of a rank at work for which others wait, in seconds.

    ``lasts`` is how long it has lasted, at least; ``usual`` how long the ``steps`` before took on
    average, at most, where that is known. ``bounded``: it is in loops that all come to an end.
    ``pause`` is how long the job's logs have been silent before while it worked, where they tell.
    ``endless``: it has lasted longer than steps do.
    """

    lasts: float
    usual: float | None = None
    steps: int = 0
    bounded: bool = False
    pause: float | None = None
    endless: bool = False


class RankState(Record):
    """What one member does, or how it ended.

    ``place`` is its place in the last snapshot, ``earlier`` its status in those before, oldest
    first. ``children`` are the places of its workers, in order. ``end`` is how it ended, where that
    is known. ``position`` is where its records show it, where no stack does.
    ``ras`` is the state that NCCL RAS reports for it, ``last_line`` what its log says last,
    ``by_log`` what its log, or the steps that it noted, tell of it where nothing else does,
    ``phase`` where its own lines in the log part from those of the others.
    ``pulse`` is what it noted of its steps.
    ``beside`` are its other threads that wait for other ranks as well, where its main thread does.
    ``step`` measures the work for which others wait, ``stopped_by`` says what stopped it.
    """

    member: int
    place: Place | None
    motion: Motion
    status: Status
    earlier: tuple[Status, ...] = ()
    children: tuple[Place | None, ...] = ()
    beside: tuple[Place, ...] = ()
    end: End | None = None
    position: IssuedCall | None = None
    ras: str = ""
    last_line: str = ""
    by_log: Status = Status.UNSEEN
    phase: LastPhase | None = None
    pulse: Pulse | None = None
    step: LongStep | None = None
    stopped_by: str = "stopped by a signal"

    @property
    def kind(self) -> WaitKind | None:
        """What it waits for in its place; None where that is not known."""
        return self.place.kind if self.place is not None else None

    @property
    def op(self) -> str | None:
        """The operation that it is in, if its place is one."""
        return self.place.op if self.place is not None else None

    @property
    def user(self) -> Frame | None:
        """The frame of the user's own that led to its place."""
        return self.place.user if self.place is not None else None


def busy_worker(state: RankState) -> tuple[int, Place] | None:
    """Find the first worker that is inside the dataset, or a task, while its rank waits for it.

    Gives its index among the member's children, and its place.
    """
    loads = state.kind is WaitKind.DATALOADER
    if state.place is None or not (loads or waits_for_pool(state.place)):
        return None
    for index, place in enumerate(state.children):
        if place is None:
            continue
        works = place.user is not None and place.kind not in {WaitKind.IDLE, WaitKind.QUEUE}
        if WaitKind.DATASET in {place.kind, place.context} if loads else works:
            return index, place
    return None


def waits_for_pool(place: Place) -> bool:
    """Return whether a place is the wait for a result of a pool of processes."""
    return place.kind is WaitKind.FUTURE and PROCESS_POOL in {place.op, place.api}
