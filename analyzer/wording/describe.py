"""Words and evidence for where a rank stands, made in one place for all queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, Process, StackDump, few
from whyhang.analyzer.job.roles import main_thread
from whyhang.analyzer.rank_state.ends import End
from whyhang.analyzer.rank_state.motion import Moved
from whyhang.analyzer.rank_state.ras import WORDS
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.redact import redact
from whyhang.analyzer.report import Collective, Evidence, Location, RankStateName, cite
from whyhang.analyzer.stacks import PROCESS_POOL, UNNAMED, Phrase, Place, WaitKind
from whyhang.analyzer.stacks.usercode import in_words, is_library, short, user_frame
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
POOL = "its process pool"


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Format ranks: "rank 2" or "ranks 0-1,3"."""
    chosen = set(ranks)
    return f"rank{'s' if len(chosen) > 1 else ''} {few(chosen)}"


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


def site_location(frame: Frame | None) -> Location | None:
    """Return the place of a recorded call, without its source lines."""
    if frame is None:
        return None
    return Location(file=short(frame.file), line=frame.line, function=frame.function)


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
    main = member.processes[-1].threads[:1] if member.processes else ()
    evidence += [
        Evidence(
            source=member.processes[-1].source.file,
            rank=member.rank,
            quote=f"pid {member.pid} in the kernel: {' ← '.join(thread.kernel)}",
        )
        for thread in main
        if thread.kernel
    ]
    worker = busy_worker(state)
    if worker is not None and member.children[worker[0]].dumps:
        evidence.append(_frames(member.children[worker[0]].dumps[-1], worker[1], member.rank))
    return evidence


def beat_of(case: Case, state: RankState) -> Evidence:
    """Cite the step that a rank noted last; raises ValueError where it noted none."""
    pulse = state.pulse
    if pulse is None:
        raise ValueError(f"{case.member(state.member).name} has noted no step")
    silent = pulse.silent_for
    when = "" if silent is None else f", {duration(silent)} before it was read"
    steps = f"{pulse.behind} step{'s' * (pulse.behind != 1)}"
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
    switches = last.before.switches if last.before else 0
    paused = " but for pauses by another tool" if any(p.pauses for p in processes) else ""
    return Evidence(
        source=last.source.file,
        rank=rank,
        quote=f"pid {last.who.pid}: the main thread did not run between the looks "
        f"({switches} context switches before and after{paused})",
    )


def _frames(dump: StackDump, place: Place, rank: int | None) -> Evidence:
    """Quote the frame that decides, and the user's frame that led there."""
    thread = next((t for t in dump.threads if t.tid == place.tid), None) or main_thread(dump)
    frames: list[Frame] = [f for f in (place.frame, place.user) if f is not None]
    if not frames and thread is not None and thread.frames:
        frames = [thread.frames[0]]
    words = " ← ".join(dict.fromkeys(in_words(frame) for frame in frames))
    return Evidence(
        source=dump.source.file,
        line=thread.line if thread is not None else dump.source.line,
        rank=rank,
        quote=words,
    )


def call_of(case: Case, waiters: Iterable[int]) -> Collective | None:
    """Name the collective that the waiting ranks are in, as far as records or a stack say."""
    chosen = set(waiters)
    kinds = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.MPI}
    for operation in case.graph.operations:
        if chosen & set(operation.members) and operation.kind in kinds:
            return collective_of(case, operation)
    return None


def collective_of(case: Case, operation: PendingOperation, others: str | None = None) -> Collective:
    """Describe an operation; with group and number where records show one of each."""
    ranks = {case.member(number).rank for number in operation.members}
    positions = [
        position
        for rank, position in case.graph.calls.positions.items()
        if rank in ranks and position.inside
    ]
    calls = {
        (position.call.group, position.call.seq)
        for position in positions
        if not position.call.p2p and position.call.op == operation.op
    }
    if len(calls) != 1:
        return Collective(op=operation.op, others=others)
    group, seq = calls.pop()
    return Collective(op=operation.op, group=group or None, seq=seq, others=others)


def subject_fields(case: Case, states: list[RankState], affected: Iterable[int]) -> dict[str, str]:
    """Fill the words of a title: who, does, where, others, call, waiting."""
    affected = tuple(affected)
    who = case.names(state.member for state in states) if states else "nobody"
    place = location_of(case, states[0]) if states else None
    others = case.names(affected) if affected else ""
    calls = _calls(case, affected)
    many = _plural(case, [state.member for state in states])
    waits = " and ".join(call.wait for call in calls) or "in their next step"
    return {
        "who": who,
        "pid": pid_in_words(case, [state.member for state in states]),
        "worker": _worker_pid(case, states),
        **_helper_words(states),
        "is": "are" if many else "is",
        "has": "have" if many else "has",
        "gets": "get" if many else "gets",
        "waits": "wait" if many else "waits",
        "its": "their" if many else "its",
        "runs": "run" if many else "runs",
        "do": "do" if many else "does",
        "use": "use" if many else "uses",
        "stay": "stay" if many else "stays",
        "wait": "waits" if affected and _single(affected, case) else "wait",
        "partner": _other_lock(case, states),
        "does": _does(case, states),
        "io": _io(case, states),
        "where": _site(place),
        "at": f" at {_site(place)}" if place else "",
        "since": _since(case, states),
        "lasting": _lasting(states),
        "others": others,
        "call": " and ".join(call.call for call in calls) or "their next step",
        "waiting": f" while {others} wait{'s' if _single(affected, case) else ''} {waits}"
        if affected
        else "",
    }


def _io(case: Case, states: list[RankState]) -> str:
    """Return how the first member does file I/O, on which file and file system, as far as known."""
    place = states[0].place if states else None
    if place is None or place.kind is not WaitKind.FILE:
        return WaitKind.FILE.value
    processes = case.member(states[0].member).processes
    thread = next((t for p in processes[-1:] for t in p.threads if t.tid == place.tid), None)
    if thread is None or thread.file is None:
        return str(place.says)
    mount = f" ({thread.mount})" if thread.mount else ""
    return f"{place.says} on {thread.file}{mount}"


def pid_in_words(case: Case, members: Sequence[int]) -> str:
    """Return the pid of the first member to put into commands, or a word for it."""
    pid = case.member(members[0]).pid if members else None
    return "PID" if pid is None else str(pid)


def _since(case: Case, states: list[RankState]) -> str:
    """Return which process the first member is, on which node of Slurm, and how old it was then."""
    member = case.member(states[0].member) if states else None
    process = member.processes[-1] if member is not None and member.processes else None
    if process is None or process.started_at is None or process.taken_at is None:
        return ""
    node = process.environ.get("SLURMD_NODENAME")
    where = f" on {node}" if node else ""
    age = duration(process.taken_at - process.started_at)
    return f" (pid {process.who.pid}{where}, started {age} before)"


def _lasting(states: list[RankState]) -> str:
    """Return how long the first member's step has lasted, beside those before it."""
    step = states[0].step if states else None
    if step is None or (step.usual is None and not step.endless):
        return ""
    text = f" This step has lasted {duration(step.lasts)} or more"
    if step.usual is None:
        return f"{text}."
    usual = f"{step.usual:.1f} s" if step.usual < 10 else duration(step.usual)
    return f"{text}; the {step.steps} before took {usual} at most on average."


def duration(seconds: float) -> str:
    """Format a duration as people do: "8 s", "12 min", "5 h"."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _worker_pid(case: Case, states: list[RankState]) -> str:
    worker = busy_worker(states[0]) if states else None
    if worker is None:  # the dataset may run in the rank itself
        place = states[0].place if states else None
        workers = place is not None and place.kind is WaitKind.DATALOADER
        return "PID" if workers else pid_in_words(case, [state.member for state in states])
    pid = case.member(states[0].member).children[worker[0]].pid
    return "PID" if pid is None else str(pid)


def _helper_words(states: list[RankState]) -> dict[str, str]:
    """Name the kind of worker that the first member waits for, and what it should give."""
    place = states[0].place if states else None
    if place is not None and waits_for_pool(place):
        return {"helper": f"worker of {POOL}", "batch": "result"}
    return {"helper": "DataLoader worker", "batch": "batch"}


def _plural(case: Case, members: list[int]) -> bool:
    return len(members) > 1 or any(case.member(number).copies > 1 for number in members)


def _other_lock(case: Case, states: list[RankState]) -> str:
    """Name the other threads of the first member that also stand in the user's code."""
    if not states or states[0].place is None or not case.member(states[0].member).dumps:
        return ""
    dump = case.member(states[0].member).dumps[-1]
    names = []
    for thread in dump.threads:
        user = user_frame(thread.frames)
        if thread.tid != states[0].place.tid and user is not None and not is_library(user):
            names.append(f"{thread.name or thread.tid} at {in_words(user)}")
    return f", and {names[0]} of the same process does not go on either" if names else ""


def _does(case: Case, states: list[RankState]) -> str:
    if not states:
        return ""
    worker = busy_worker(states[0])
    if worker is None:
        does = activity(states[0])
        many = _plural(case, [state.member for state in states])
        return does.replace(" for its ", " for their ") if many else does
    pid = case.member(states[0].member).children[worker[0]].pid
    number = f" (pid {pid})" if pid is not None else ""
    stopped = "stopped by a signal, " if worker[1].stopped else ""
    of_pool = states[0].place is not None and waits_for_pool(states[0].place)
    whose = f"a worker of {POOL}" if of_pool else "its DataLoader worker"
    return f"{whose}{number} is {stopped}{worker[1].says}"


def _site(place: Location | None) -> str:
    if place is None:
        return "an unknown place"
    line = f":{place.line}" if place.line is not None else ""
    return f"{place.function} ({place.file}{line})"


def _single(members: tuple[int, ...], case: Case) -> bool:
    return len(members) == 1 and case.member(members[0]).copies == 1


def _calls(case: Case, affected: tuple[int, ...]) -> list[Phrase]:
    chosen = set(affected)
    calls = [m.says for m in case.graph.operations if chosen & set(m.members)]
    named = [call for call in calls if call != UNNAMED]
    return list(dict.fromkeys((named or calls)[:3]))
