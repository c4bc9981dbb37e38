"""Words and evidence for where a rank stands, made in one place for all matchers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case, Meeting, Stand, Standing
from whyhang.analyzer.model import Frame, Process, StackDump, few
from whyhang.analyzer.motion import Moved
from whyhang.analyzer.report import Collective, Evidence, Location, RankState
from whyhang.analyzer.roles import main_thread
from whyhang.analyzer.waits import PROCESS_POOL, Phrase, Place, WaitKind
from whyhang.analyzer.waits.usercode import is_library, short, user_frame

STATES: dict[Standing, RankState] = {
    Standing.WAITING: "waiting",
    Standing.MAYBE: "waiting",
    Standing.BLOCKED: "blocked",
    Standing.RUNNING: "running",
    Standing.MOVING: "running",
    Standing.IDLE: "waiting",
    Standing.STOPPED: "stopped",
    Standing.GONE: "exited",
    Standing.UNSEEN: "unreachable",
}
CONTEXT_LINES = 4
POOL = "its process pool"


def ranks_in_words(ranks: Iterable[int]) -> str:
    """Say "rank 2" or "ranks 0-1,3"."""
    chosen = set(ranks)
    return f"rank{'s' if len(chosen) > 1 else ''} {few(chosen)}"


def activity(stand: Stand) -> str:
    """Say in a short phrase what a member does."""
    if stand.standing is Standing.GONE:
        return "dead"
    if stand.place is None:
        return "stopped by a signal" if stand.standing is Standing.STOPPED else "not seen"
    phrase = str(stand.place)
    if stand.standing is Standing.STOPPED:
        return f"stopped by a signal, {phrase}"
    if stand.standing is Standing.MOVING:
        return f"{phrase}, {stand.motion.file or 'moving'}"
    if stand.motion.moved is Moved.IN_PLACE and stand.place.kind is WaitKind.WORK:
        return "running in place"
    return phrase


def location_of(case: Case, stand: Stand) -> Location | None:
    """Give the place in the user's code: of the worker that a rank waits for, if it is that."""
    frame = _worker_frame(stand) or (stand.place.user if stand.place else None)
    if frame is None:
        return None
    return Location(
        file=short(frame.file),
        line=frame.line,
        function=frame.function.rpartition(".")[2] if not frame.native else frame.function,
        excerpt=_excerpt(case, frame),
    )


def site_location(frame: Frame | None) -> Location | None:
    """Give the place of a recorded call, without its source lines."""
    if frame is None:
        return None
    return Location(file=short(frame.file), line=frame.line, function=frame.function)


def _worker_frame(stand: Stand) -> Frame | None:
    """Find the user's frame in the DataLoader worker that is busy while its rank waits for it."""
    worker = busy_worker(stand)
    return worker[1].user if worker is not None else None


def busy_worker(stand: Stand) -> tuple[int, Place] | None:
    """Find the first worker that is inside the dataset, or a task, while its rank waits for it.

    Gives its index among the member's children, and its place.
    """
    if stand.place is None:
        return None
    loads = stand.place.kind is WaitKind.DATALOADER
    if not loads and not waits_for_pool(stand.place):
        return None
    for index, place in enumerate(stand.children):
        if place is None:
            continue
        works = place.user is not None and place.kind not in {WaitKind.IDLE, WaitKind.QUEUE}
        if WaitKind.DATASET in {place.kind, place.context} if loads else works:
            return index, place
    return None


def waits_for_pool(place: Place) -> bool:
    """Tell whether a place is the wait for a result of a pool of processes."""
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


def evidence_of(case: Case, stand: Stand) -> list[Evidence]:
    """Cite what places a member: its deciding frame, its process state, its busy worker."""
    member = case.member(stand.member)
    found: list[Evidence] = []
    if stand.standing in {Standing.STOPPED, Standing.GONE} and member.processes:
        found.append(_state(member.processes[-1], member.rank))
    if stand.place is not None and member.dumps:
        found.append(_frames(member.dumps[-1], stand.place, member.rank))
    if stand.motion.moved is Moved.STILL and member.processes:
        found.append(_counters(member.processes, member.rank))
    worker = busy_worker(stand)
    if worker is not None and member.children[worker[0]].dumps:
        found.append(_frames(member.children[worker[0]].dumps[-1], worker[1], member.rank))
    return found


def _state(process: Process, rank: int | None) -> Evidence:
    return Evidence(
        source=process.source.file,
        line=process.source.line,
        rank=rank,
        quote=f"pid {process.who.pid} State: {process.state} "
        f"({_STATE_WORDS.get(process.state or '', 'unknown')})",
    )


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
    return Evidence(
        source=last.source.file,
        rank=rank,
        quote=f"pid {last.who.pid}: the main thread did not run between the looks "
        f"({switches} context switches before and after)",
    )


def _frames(dump: StackDump, place: Place, rank: int | None) -> Evidence:
    """Quote the frame that decides, and the user's frame that led there."""
    thread = next((t for t in dump.threads if t.tid == place.tid), None) or main_thread(dump)
    frames: list[Frame] = [f for f in (place.frame, place.user) if f is not None]
    if not frames and thread is not None and thread.frames:
        frames = [thread.frames[0]]
    words = " ← ".join(dict.fromkeys(_frame(frame) for frame in frames))
    return Evidence(
        source=dump.source.file,
        line=thread.line if thread is not None else dump.source.line,
        rank=rank,
        quote=words,
    )


def _frame(frame: Frame) -> str:
    line = "" if frame.line is None else f":{frame.line}"
    return f"{frame.function} ({short(frame.file)}{line})"


def call_of(case: Case, waiters: Iterable[int]) -> Collective | None:
    """Name the collective that the waiting ranks are in, as far as the ledger or a stack tells."""
    chosen = set(waiters)
    kinds = {WaitKind.COLLECTIVE, WaitKind.P2P, WaitKind.MPI}
    for meeting in case.picture.meetings:
        if chosen & set(meeting.members) and meeting.kind in kinds:
            return collective_of(case, meeting)
    return None


def collective_of(case: Case, meeting: Meeting, others: str | None = None) -> Collective:
    """Name the operation of a meeting; its group and number where the ledger tells one of each."""
    ranks = {case.member(number).rank for number in meeting.members}
    spots = [spot for rank, spot in case.ledger.spots.items() if rank in ranks and spot.inside]
    calls = {
        (spot.call.group, spot.call.seq)
        for spot in spots
        if spot.call is not None and not spot.call.p2p and spot.call.op == meeting.op
    }
    if len(calls) != 1:
        return Collective(op=meeting.op, others=others)
    group, seq = calls.pop()
    return Collective(op=meeting.op, group=group or None, seq=seq, others=others)


def subject_fields(case: Case, stands: list[Stand], affected: Iterable[int]) -> dict[str, str]:
    """Fill the words of a title: who, does, where, others, call, waiting."""
    affected = tuple(affected)
    who = case.names(stand.member for stand in stands) if stands else "nobody"
    place = location_of(case, stands[0]) if stands else None
    others = case.names(affected) if affected else ""
    calls = _calls(case, affected)
    many = _plural(case, [stand.member for stand in stands])
    return {
        "who": who,
        "pid": pid_in_words(case, [stand.member for stand in stands]),
        "worker": _worker_pid(case, stands),
        **_helper_words(stands),
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
        "partner": _other_lock(case, stands),
        "does": _does(case, stands),
        "io": _io(stands),
        "where": _site(place),
        "at": f" at {_site(place)}" if place else "",
        "since": _since(case, stands),
        "others": others,
        "call": " and ".join(call.call for call in calls) or "their next step",
        "waiting": f" while {others} wait{'s' if _single(affected, case) else ''} {_waits(calls)}"
        if affected
        else "",
    }


def _io(stands: list[Stand]) -> str:
    """Say how the first member does file I/O, where more is known than that it does."""
    place = stands[0].place if stands else None
    known = place is not None and place.kind is WaitKind.FILE
    return str(place.says) if place is not None and known else WaitKind.FILE.value


def pid_in_words(case: Case, members: Sequence[int]) -> str:
    """Give the pid of the first member to put into commands, or a word for it."""
    pid = case.member(members[0]).pid if members else None
    return "PID" if pid is None else str(pid)


def _since(case: Case, stands: list[Stand]) -> str:
    """Say which process the first member is, on which node of Slurm, and how old it was then."""
    member = case.member(stands[0].member) if stands else None
    process = member.processes[-1] if member is not None and member.processes else None
    if process is None or process.started_at is None or process.taken_at is None:
        return ""
    node = process.environ.get("SLURMD_NODENAME")
    where = f" on {node}" if node else ""
    age = duration(process.taken_at - process.started_at)
    return f" (pid {process.who.pid}{where}, started {age} before)"


def duration(seconds: float) -> str:
    """Say a duration as people do: "8 s", "12 min", "5 h"."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def _worker_pid(case: Case, stands: list[Stand]) -> str:
    worker = busy_worker(stands[0]) if stands else None
    if worker is None:  # the dataset may run in the rank itself
        place = stands[0].place if stands else None
        workers = place is not None and place.kind is WaitKind.DATALOADER
        return "PID" if workers else pid_in_words(case, [stand.member for stand in stands])
    pid = case.member(stands[0].member).children[worker[0]].pid
    return "PID" if pid is None else str(pid)


def _helper_words(stands: list[Stand]) -> dict[str, str]:
    """Name the kind of worker that the first member waits for, and what it should give."""
    place = stands[0].place if stands else None
    if place is not None and waits_for_pool(place):
        return {"helper": f"worker of {POOL}", "batch": "result"}
    return {"helper": "DataLoader worker", "batch": "batch"}


def _plural(case: Case, members: list[int]) -> bool:
    return len(members) > 1 or any(case.member(number).copies > 1 for number in members)


def _other_lock(case: Case, stands: list[Stand]) -> str:
    """Name the other threads of the first member that also stand in the user's code."""
    if not stands or stands[0].place is None or not case.member(stands[0].member).dumps:
        return ""
    dump = case.member(stands[0].member).dumps[-1]
    names = []
    for thread in dump.threads:
        user = user_frame(thread.frames)
        if thread.tid != stands[0].place.tid and user is not None and not is_library(user):
            names.append(f"{thread.name or thread.tid} at {_frame(user)}")
    return f", and {names[0]} of the same process does not go on either" if names else ""


def _does(case: Case, stands: list[Stand]) -> str:
    if not stands:
        return ""
    worker = busy_worker(stands[0])
    if worker is None:
        does = activity(stands[0])
        many = _plural(case, [stand.member for stand in stands])
        return does.replace(" for its ", " for their ") if many else does
    pid = case.member(stands[0].member).children[worker[0]].pid
    number = f" (pid {pid})" if pid is not None else ""
    stopped = "stopped by a signal, " if worker[1].stopped else ""
    of_pool = stands[0].place is not None and waits_for_pool(stands[0].place)
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
    calls = [m.says for m in case.picture.meetings if chosen & set(m.members)]
    return list(dict.fromkeys(calls[:3]))


def _waits(calls: Sequence[Phrase]) -> str:
    """Say in what, or for what, ranks wait."""
    return " and ".join(call.wait for call in calls) or "in their next step"
