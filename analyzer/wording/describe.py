"""Where a rank stands, in words: what it does, how it ended, at which line."""

from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame
from whyhang.analyzer.rank_state.ends import End
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.ras import WORDS
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.redact import redact
from whyhang.analyzer.report import Location, RankStateName
from whyhang.analyzer.stacks import PROCESS_POOL, Place, WaitKind
from whyhang.analyzer.stacks.usercode import short

STATES: dict[Status, RankStateName] = {
    Status.WAITING: "waiting",
    Status.MAYBE: "waiting",
    Status.BLOCKED: "blocked",
    Status.RUNNING: "running",
    Status.MOVING: "running",
    Status.IDLE: "waiting",
    Status.STOPPED: "stopped",
    Status.GONE: "exited",
    Status.UNSEEN: "unreachable",
}
CONTEXT_LINES = 4
MAX_QUOTED = 80
POOL = "its process pool"


def activity(state: RankState) -> str:
    """Return in a short phrase what a member does."""
    if state.status is Status.GONE:
        return _ended(state.end) if state.end is not None else "dead"
    if state.position is not None:
        return str(state.position)
    if state.status is Status.UNSEEN and state.ras in WORDS:
        return WORDS[state.ras][1]
    if state.end is not None and (state.place is None or state.status is Status.UNSEEN):
        return _ended(state.end)
    if state.status is Status.UNSEEN and (state.last_line or state.pulse is not None):
        return _last_sign(state)
    if state.place is None:
        return state.stopped_by if state.status is Status.STOPPED else "not seen"
    phrase = str(state.place)
    if state.status is Status.STOPPED:
        return f"{state.stopped_by}, {phrase}"
    if state.status is Status.MOVING:
        return f"{phrase}, {state.motion.file or 'moving'}"
    if state.motion.moved is Moved.IN_PLACE and state.place.kind is WaitKind.WORK:
        return "running in place"
    return phrase


def _last_sign(state: RankState) -> str:
    """Return what is known last of a rank that was not looked at."""
    step = f"last in step {state.pulse.last.step}" if state.pulse is not None else ""
    return step or f"last line: {_cut(state.last_line)}"


def _ended(end: End) -> str:
    """Return how a rank ended, short enough for a row."""
    return f"ended: {_cut(end.how)}"


def _cut(text: str) -> str:
    text = redact(text)  # half a secret looks like none
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def status_word(state: RankState) -> RankStateName:
    """Return the word of the report for how a rank is."""
    if state.status is Status.UNSEEN and state.ras in WORDS:
        return WORDS[state.ras][0]
    if state.status is Status.UNSEEN and state.end is not None:
        return "exited"
    return STATES[state.status]


def location_of(case: Case, state: RankState) -> Location | None:
    """Return the place in the user's code: of the worker that a rank waits for, if it is that."""
    worker = busy_worker(state)
    frame = (worker[1].user if worker else None) or (state.place.user if state.place else None)
    if frame is None:
        return None
    return Location(
        file=short(frame.file),
        line=frame.line,
        function=frame.function.rpartition(".")[2] if not frame.native else frame.function,
        excerpt=_excerpt(case, frame),
    )


def busy_worker(state: RankState) -> tuple[int, Place] | None:
    """Find the first worker that is inside the dataset, or a task, while its rank waits for it.

    Gives its index among the member's children, and its place.
    """
    if state.place is None:
        return None
    loads = state.place.kind is WaitKind.DATALOADER
    if not loads and not waits_for_pool(state.place):
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


def _excerpt(case: Case, frame: Frame) -> tuple[str, ...]:
    """Show the source lines around a frame, the line itself marked."""
    if frame.line is None:
        return ()
    for piece in case.job.excerpts:
        last = piece.first_line + len(piece.lines) - 1
        if piece.file == frame.file and piece.first_line <= frame.line <= last:
            width = len(str(last))
            return tuple(
                f"{'>' if number == frame.line else ' '} {number:>{width}} | {text}"
                for number, text in enumerate(piece.lines, piece.first_line)
                if abs(number - frame.line) <= CONTEXT_LINES
            )
    return ()


def pid_in_words(case: Case, members: Sequence[int]) -> str:
    """Return the pid of the first member to put into commands, or a word for it."""
    pid = case.member(members[0]).pid if members else None
    return "PID" if pid is None else str(pid)


def duration(seconds: float) -> str:
    """Format a duration as people do: "8 s", "12 min", "5 h"."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
