"""Where a rank stands, in words and as evidence: what it does, in which call, how it ended."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, OtherEnd, Process, StackDump, counted
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.job.connections import ConnectionPeer
from whyhang.analyzer.job.records import Child, Member
from whyhang.analyzer.job.sockets import tcp_socket
from whyhang.analyzer.rank_state.listed import WORDS
from whyhang.analyzer.rank_state.over_time.motion import Moved
from whyhang.analyzer.rank_state.state import RankState, Status, busy_worker
from whyhang.analyzer.redact import redact
from whyhang.analyzer.report import Collective, Evidence, Location, RankStateName, cite
from whyhang.analyzer.stacks import LineText, Place, WaitKind
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.source_paths import own_path
from whyhang.analyzer.stacks.usercode import in_words, is_library, line_of, short
from whyhang.analyzer.wait_graph import PendingOperation

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
MOST_PLACES = 3
NOT_SEEN = "not seen"
"""What a member does of which nothing is known."""


_DATA = frozenset({WaitKind.NETWORK, WaitKind.FILE, WaitKind.POLL})


def other_end(case: Case, state: RankState) -> OtherEnd | None:
    """Return the process at the other end of the pipe or connection that a member waits at."""
    process = _waiting_for_data(case, state)
    return process.other_end if process is not None else None


def connection_peer(case: Case, state: RankState) -> ConnectionPeer | None:
    """Return whose the other end is of the one TCP connection that a member waits at."""
    process = _waiting_for_data(case, state)
    socket = tcp_socket(process.awaits) if process is not None and process.awaits else None
    if socket is None or socket.peer is None:
        return None
    return case.connections.peer(case.member(state.member), str(socket.own), socket.peer)


def _waiting_for_data(case: Case, state: RankState) -> Process | None:
    """Return the process of a member, as it was seen last, if it waits at a file or connection."""
    place, processes = state.place, case.member(state.member).processes
    at_an_end = place is not None and place.kind in _DATA and place.through is None
    return processes[-1] if processes and at_an_end else None


def activity(state: RankState) -> str:
    """Return in a short phrase what a member does."""
    if state.status is Status.GONE:
        return f"ended: {_cut(state.end.how)}" if state.end is not None else "dead"
    if state.position is not None:
        return str(state.position)
    if state.status is Status.UNSEEN and state.ras in WORDS:
        return WORDS[state.ras][1]
    if state.end is not None and (state.place is None or state.status is Status.UNSEEN):
        return f"ended: {_cut(state.end.how)}"
    if state.status is Status.UNSEEN and (state.last_line or state.pulse is not None):
        line = f"last line: {_cut(state.last_line)}"
        return line if state.pulse is None else f"last in step {state.pulse.last.step}"
    if state.place is None:
        return state.stopped_by if state.status is Status.STOPPED else NOT_SEEN
    phrase = str(state.place)
    if state.status is Status.STOPPED:
        return f"{state.stopped_by}, {phrase}"
    if state.status is Status.MOVING:
        return f"{phrase}, {state.motion.file or 'moving'}"
    if state.motion.moved is Moved.IN_PLACE and state.place.kind is WaitKind.WORK:
        return "running in place"
    return phrase


def _cut(text: str) -> str:
    text = redact(text)  # half a secret looks like none
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def status_word(state: RankState) -> RankStateName:
    """Return the word of the report for how a rank is."""
    if state.status is Status.UNSEEN and state.ras in WORDS:
        return WORDS[state.ras][0]
    if state.status is Status.UNSEEN and state.end is not None:
        return "exited"
    return STATES[state.by_log if state.status is Status.UNSEEN else state.status]


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


def _excerpt(case: Case, frame: Frame) -> tuple[str, ...]:
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


def evidence_of(case: Case, state: RankState) -> list[Evidence]:
    """Cite what places a member: its deciding frame, its process state, its busy worker."""
    member = case.member(state.member)
    evidence: list[Evidence] = []
    if state.status in {Status.STOPPED, Status.GONE} and member.processes:
        evidence.append(_state(member.processes[-1], member.rank))
    if state.status is Status.GONE and state.end is not None:
        evidence.append(cite(state.end.source, state.end.quote, member.rank))
    if state.place is not None and member.dumps:
        evidence.append(_frames(member.dumps[-1], state.place, member.rank))
    if state.motion.moved is Moved.STILL and member.processes:
        evidence.append(_counters(member.processes, member.rank))
    if state.pulse is not None and state.pulse.behind:
        evidence.append(beat_of(case, state))
    for last in member.processes[-1:]:
        for kernel in (thread.kernel for thread in last.threads[:1] if thread.kernel):
            quote = f"pid {member.pid} in the kernel: {' ← '.join(kernel)}"
            evidence.append(Evidence(source=last.source.file, rank=member.rank, quote=quote))
        if connection_peer(case, state) is not None:
            quote = f"pid {member.pid} waits at {last.awaits}"
            evidence.append(cite(last.source, quote, member.rank))
    worker = busy_worker(state)
    if worker is not None and member.children[worker[0]].dumps:
        evidence.append(_frames(member.children[worker[0]].dumps[-1], worker[1], member.rank))
    awaited = awaited_children(case, state)[:1]
    return evidence + [_frames(child.dumps[-1], its, member.rank) for child, its in awaited]


def beat_of(case: Case, state: RankState) -> Evidence:
    """Cite the step that a rank noted last; raises ValueError where it noted none."""
    pulse = state.pulse
    if pulse is None:
        raise ValueError(f"{case.member(state.member).name} has noted no step")
    silent = pulse.silent_for
    when = "" if silent is None else f", {duration(silent)} before it was read"
    steps = counted(pulse.behind, "step")
    behind = f"; that is {steps} behind the furthest rank" if pulse.behind else ""
    words = f"it came to step {pulse.last.step} last{when}{behind}"
    return cite(pulse.last.source, words, case.member(state.member).rank)


def _state(process: Process, rank: int | None) -> Evidence:
    words = f"State: {process.state} ({_STATE_WORDS.get(process.state or '', 'unknown')})"
    if process.frozen is not None:
        words = f"its control group {process.frozen} is frozen"
    return cite(process.source, f"pid {process.who.pid} {words}", rank)


_STATE_WORDS = {
    "T": "stopped",
    "t": "tracing stop",
    "Z": "zombie",
    "X": "dead",
    "D": "disk sleep",
    "R": "running",
    "S": "sleeping",
}


def _counters(processes: tuple[Process, ...], rank: int | None) -> Evidence:
    last = processes[-1]
    paused = " but for pauses by another tool" if any(p.pauses for p in processes) else ""
    quote = f"pid {last.who.pid}: the main thread did not run at all between the looks{paused}"
    return Evidence(source=last.source.file, rank=rank, quote=quote)


def _frames(dump: StackDump, place: Place, rank: int | None) -> Evidence:
    """Quote the frame that decides, and the user's frame that led there."""
    thread = next((t for t in dump.threads if t.tid == place.tid), None) or main_thread(dump)
    frames: list[Frame] = [f for f in (place.frame, place.user) if f is not None]
    if not frames and thread is not None and thread.frames:
        frames = [thread.frames[0]]
    words = " ← ".join(dict.fromkeys(in_words(frame) for frame in frames))
    line = thread.line if thread is not None else dump.source.line
    return Evidence(source=dump.source.file, line=line, rank=rank, quote=words)


def site_location(frame: Frame | None) -> Location | None:
    """Return the place of a recorded call, without its source lines."""
    if frame is None:
        return None
    return Location(file=short(frame.file), line=frame.line, function=last_name(frame))


def call_of(case: Case, waiters: Iterable[int]) -> Collective | None:
    """Name the collective that the waiting ranks are in, as far as records or a stack say."""
    chosen = set(waiters)
    kinds = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.MPI}
    for operation in case.graph.operations:
        if chosen & set(operation.members) and operation.kind in kinds:
            return collective_of(operation)
    return None


def collective_of(operation: PendingOperation, others: str | None = None) -> Collective:
    """Describe an operation; with group and number where records show one of each."""
    return Collective(op=operation.op, group=operation.group, seq=operation.seq, others=others)


def frames_of(member: Member) -> tuple[Frame, ...]:
    """Return the Python frames of a main thread, innermost first, or those that it has."""
    if not member.dumps:
        return ()
    thread = main_thread(member.dumps[-1])
    frames = thread.frames if thread is not None else ()
    return tuple(f for f in frames if not f.native) or frames


def path_of(case: Case, state: RankState) -> list[Frame]:
    """Return the user's own frames of a rank's main thread, outermost first."""
    return own_path(case.member(state.member).dumps) if state.place is not None else []


def way_in(case: Case, state: RankState) -> str:
    """Return the module of Python through which a program has come to its own innermost code.

    As ``logging``, which formats an object by its ``__str__``; empty where its own code called it.
    """
    dumps = case.member(state.member).dumps
    thread = main_thread(dumps[-1]) if dumps else None
    frames = [frame for frame in (thread.frames if thread is not None else ()) if not frame.native]
    own = [number for number, frame in enumerate(frames) if not is_library(frame)]
    between = [f for a, b in pairwise(own) if b > a + 1 for f in frames[a + 1 : b]]
    return short(between[-1].file).removesuffix(".py").partition("/")[0] if between else ""


def waits_for_process(place: Place) -> bool:
    """Return whether a place is the wait for another process at what multiprocessing shares."""
    return place.frame is not None and "multiprocessing/" in place.frame.file


def awaited_children(case: Case, state: RankState) -> list[tuple[Child, Place]]:
    """List the child processes in the user's code of a member that waits for what one gives."""
    place = state.place
    if place is None or place.kind not in {WaitKind.QUEUE, WaitKind.LOCK}:
        return []
    children = zip(case.member(state.member).children, state.children, strict=False)
    own = ((child, its) for child, its in children if its is not None and child.dumps)
    return [(c, p) for c, p in own if p.user is not None] if waits_for_process(place) else []


def quoted(head: Frame, text: LineText) -> str:
    """Quote the line that opens a block, without its comment, and say where it stands."""
    condition = (text(head) or "").partition("  #")[0].strip().rstrip(":")
    return f"`{condition}` ({line_of(head)})"
