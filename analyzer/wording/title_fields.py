"""The fields that titles and texts of signatures may name, filled for the ranks of a finding."""

import re
from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, Process, Thread, Who, program
from whyhang.analyzer.job.records import Member
from whyhang.analyzer.rank_state.over_time.motion import SPINNING, motion
from whyhang.analyzer.rank_state.state import RankState, busy_worker, waits_for_pool
from whyhang.analyzer.stacks import UNNAMED, LineText, Phrase, Place, WaitKind
from whyhang.analyzer.stacks.kinds import PIPE, SHARED_LOCK, Manner, last_name
from whyhang.analyzer.stacks.place import from_kernel
from whyhang.analyzer.stacks.source_blocks import heads
from whyhang.analyzer.stacks.usercode import in_words, is_library, user_frame, user_path
from whyhang.analyzer.toml import table
from whyhang.analyzer.wording.describe import (
    activity,
    connection_peer,
    duration,
    location_of,
    other_end,
    pid_in_words,
    quoted,
    waits_for_process,
)
from whyhang.analyzer.wording.who_fills import is_left_alone

_TAKES_LOCK = re.compile(r"\s*(?:async\s+)?with\b.*(?:lock|mutex|sem)", re.IGNORECASE)
_LOCK_OF = re.compile(
    r"\s*(?:(?:async\s+)?with\s+)?(?P<lock>[\w.]+)(?:\.acquire\(.*\)|:)\s*(?:#.*)?$"
)
_ADVICE: dict[str, dict[str, str]] = table(__package__, "advice.toml")
_IN_ORDER = "Batches come in order, so one stuck worker is enough."
_ALONE = "It loads in its own process (num_workers=0): nothing else can bring that batch."
_OF_LOADER = {"helper": "DataLoader worker", "batch": "batch"}
_OF_NOBODY = {
    "worker": "PID",
    **_OF_LOADER,
    **dict.fromkeys(("partner", "does", "on", "peer", "since", "lasting", "left"), ""),
    "advice": _ADVICE["kinds"]["work"],
    "io": WaitKind.FILE.value,
    "loads": _IN_ORDER,
}
"""The fields about the first member where there is none."""


def subject_fields(case: Case, states: list[RankState], affected: Iterable[int]) -> dict[str, str]:
    """Fill the words of a title: who, does, where, others, call, waiting."""
    affected = tuple(affected)
    members = [state.member for state in states]
    who = case.names(members) if states else "nobody"
    many = _are_many(case, members)
    place = location_of(case, states[0]) if states else None
    others = case.names(affected) if affected else ""
    calls = _calls(case, affected)
    waits = " and ".join(call.wait for call in calls) or "in their next step"
    verb = "wait" if _are_many(case, affected) else "waits"
    find = f"Find out where {who} {'are' if many else 'is'}"
    ways = {state.end.how.partition(":")[0] if state.end is not None else "" for state in states}
    gone = f"{'have' if many else 'has'} no living process"
    if len(ways) == 1 and ways != {""}:  # all ended in one way
        gone = f"ended with {ways.pop()}"
    return {
        "who": who,
        "pid": pid_in_words(case, members),
        **(_fields_of_first(case, states, many=many) if states else _OF_NOBODY),
        "its": "their" if many else "its",
        "gone": gone,
        "where": str(place or "an unknown place"),
        "look": f"Look at {place}" if place is not None else find,
        "at": f" at {place}" if place else "",
        "others": others,
        "call": " and ".join(call.call for call in calls) or "their next step",
        "waiting": f" while {others} {verb} {waits}" if affected else "",
    }


def _fields_of_first(case: Case, states: list[RankState], *, many: bool) -> dict[str, str]:
    """Fill the fields that tell of the first member; ``many``: there are others."""
    first = states[0]
    member, place = case.member(first.member), first.place
    kind = place.kind if place is not None else None
    peer = _peer(case, states)
    file = _on_file(member.processes, place) if place is not None else ""
    alone = kind not in {None, WaitKind.DATALOADER} and not first.children
    helper = _OF_LOADER
    if place is not None and waits_for_pool(place):
        helper = {"helper": "worker of its process pool", "batch": "result"}
    elif kind is WaitKind.SUBPROCESS:
        helper = {"helper": "child process", "batch": "result"}
    return {
        "worker": _worker_pid(case, first),
        **helper,
        "partner": _other_lock(case, first),
        "does": _does(case, first, peer, many=many),
        "io": f"{place.says}{file}{peer}"
        if place is not None and kind is WaitKind.FILE
        else WaitKind.FILE.value,
        "on": f" The call is{file}." if file else "",
        "peer": peer,
        "since": _since(member),
        "left": "",
        "lasting": _lasting(first),
        "loads": _ALONE if alone else _IN_ORDER,
        "advice": _advice(first),
    }


def _advice(state: RankState) -> str:
    """Say what to do about what a member is in, or the worker that it waits for."""
    worker = busy_worker(state)
    place = worker[1] if worker is not None else state.place
    kinds = _ADVICE["kinds"] | (_ADVICE["workers"] if worker is not None else {})
    if place is None:
        return kinds["work"]
    by_kind = kinds.get(place.kind.name.lower(), kinds["work"])
    return _ADVICE["operations"].get(place.op or "", by_kind)


def _peer(case: Case, states: list[RankState]) -> str:
    """Name who is at the other end of what these members read or write, if it is one process."""
    ends = {other_end(case, state) for state in states}
    end = ends.pop() if len(ends) == 1 else None
    if end is None:
        return _far_peer(case, states)
    rank = case.job.member_of(Who(host=case.member(states[0].member).host, pid=end.pid))
    name = program(end.command) or "a process"
    place = states[0].place
    of_call = place is not None and place.kind is WaitKind.FILE and place.op != PIPE
    there = "at its other end: " if of_call else ""  # that it is a pipe was not said yet
    return f" ({there}{name if rank is None else rank.name}, pid {end.pid})"


def _far_peer(case: Case, states: list[RankState]) -> str:
    """Name whose the other end is of the connection that these members wait at, if all to one."""
    sides = [connection_peer(case, state) for state in states]
    first = sides[0]
    if first is None or len({side and (str(side.address), side.member) for side in sides}) > 1:
        return ""
    host = f"on {first.host}" if first.host else ""
    if first.member == states[0].member:
        owner = "its own process"
    elif first.member is not None:
        owner = " ".join(filter(None, (case.member(first.member).name, host)))
    else:
        owner = f"no rank, {host}" if host else "outside the job"
        if case.job.absent and not host:
            owner = "on no host that was looked at"
    return f" ({first.address}, {owner})"


def _on_file(processes: Sequence[Process], place: Place) -> str:
    thread = next((t for p in processes[-1:] for t in p.threads if t.tid == place.tid), None)
    if thread is None or thread.file is None:
        return ""
    return f" on {thread.file}{f' ({thread.mount})' if thread.mount else ''}"


def _since(member: Member) -> str:
    process = member.processes[-1] if member.processes else None
    if process is None or process.started_at is None or process.taken_at is None:
        return ""
    node = process.environ.get("SLURMD_NODENAME")
    where = f" on {node}" if node else ""
    age = duration(process.taken_at - process.started_at)
    return f" (pid {process.who.pid}{where}, started {age} before)"


def _lasting(state: RankState) -> str:
    """Return how long a member's step has lasted, beside those before it."""
    step = state.step
    if step is None or (step.usual is None and not step.endless):
        return ""
    text = f" This step has lasted {duration(step.lasts)} or more"
    if step.usual is None:
        return f"{text}."
    usual = f"{step.usual:.1f} s" if step.usual < 10 else duration(step.usual)
    return f"{text}; the {step.steps} before took {usual} at most on average."


def _worker_pid(case: Case, state: RankState) -> str:
    """Return the pid of a member's busy worker; of its own where the dataset runs in the rank."""
    worker, member = busy_worker(state), case.member(state.member)
    of_workers = state.place is not None and state.place.kind is WaitKind.DATALOADER
    pid = None if of_workers else member.pid
    if worker is not None:
        pid = member.children[worker[0]].pid
    return "PID" if pid is None else str(pid)


def _are_many(case: Case, members: Sequence[int]) -> bool:
    return len(members) > 1 or any(case.member(number).copies > 1 for number in members)


def _own_holder(path: Sequence[Frame], text: LineText) -> Frame | None:
    """Return the frame that is in a block of the very lock that the innermost frame wants."""
    wanted = (text(path[-1]) or "").strip() if path else ""
    if not wanted.startswith("with "):
        return None
    outer = (f for f in reversed(path[:-1]) if f.file == path[-1].file)
    within = (f for f in outer for h in heads(f, text) if (text(h) or "").strip() == wanted)
    return next(within, None)


def _crossed_locks(main: Thread | None, threads: Iterable[Thread], text: LineText) -> str:
    """Say which thread has the lock that one wants and waits itself for one that this one has."""
    path = user_path(main.frames) if main is not None else []
    wants, has = _wanted_lock(path, text), _locks_taken(path, text)
    for thread in threads if wants is not None else ():
        its_path = user_path(thread.frames)
        its_wants, its = _wanted_lock(its_path, text), _locks_taken(its_path, text)
        if thread is not main and wants in its and its_wants in has:
            return (
                f"; thread {thread.name or thread.tid} has taken that lock by "
                f"{quoted(its[wants], text)}, and waits at {in_words(its_path[-1])} for the lock "
                f"that this one has taken by {quoted(has[its_wants], text)}: each waits for the "
                "other"
            )
    return ""


_Lock = tuple[str, str, str]
"""A lock as the source names it: the file, the class of the function, the expression."""


def _wanted_lock(path: Sequence[Frame], text: LineText) -> _Lock | None:
    """Return the lock that the innermost line takes; None where it takes none that is seen."""
    return _lock_at(path[-1], path[-1], text) if path else None


def _locks_taken(path: Sequence[Frame], text: LineText) -> dict[_Lock | None, Frame]:
    """Return the locks of the blocks that these frames are in, by the lines that took them."""
    taken = ((_lock_at(f, head, text), head) for f in path for head in heads(f, text))
    return {lock: head for lock, head in taken if lock is not None}


def _lock_at(frame: Frame, line: Frame, text: LineText) -> _Lock | None:
    """Return the lock that a line in the function of a frame takes."""
    match = _LOCK_OF.match(text(line) or "")
    if match is None:
        return None
    of_class = frame.function.rpartition(".")[0] if match["lock"].startswith("self.") else ""
    return (frame.file, of_class, match["lock"])


def _other_lock(case: Case, state: RankState) -> str:
    """Name another thread of a member in the user's code: the one that has the lock.

    It is in a block that takes one; where none is seen, any that stands there as well.
    """
    dumps = case.member(state.member).dumps
    if state.place is None or not dumps:
        return ""
    text = case.text
    main = next((t for t in dumps[-1].threads if t.tid == state.place.tid), None)
    if crossed := _crossed_locks(main, dumps[-1].threads, text):
        return crossed
    if own := _own_holder(user_path(main.frames) if main is not None else [], text):
        return f"; {in_words(own)}, further out on the same stack, has taken it"
    others = []
    for thread in dumps[-1].threads:
        user = user_frame(thread.frames)
        if thread.tid == state.place.tid or user is None or is_library(user):
            continue
        called = map(last_name, reversed(thread.frames[: thread.frames.index(user)]))
        call = next((f" (in {name})" for name in called if name != "wrapper"), "")
        name = f"thread {thread.name or thread.tid} at {in_words(user)}{call}"
        if any(_TAKES_LOCK.match(text(head) or "") for head in heads(user, text)):
            return f"; {name} seems to hold it"
        others.append(name)
    if others:
        return f"; {others[0]} does not go on either"
    shared = state.place.op == SHARED_LOCK or waits_for_process(state.place)
    nobody = ". No other thread of the process is in the program's code"
    gone = f"{nobody}: who took it has ended, or went on without giving it back"
    return "" if shared or dumps[-1].main_only else gone


def _does(case: Case, state: RankState, peer: str, *, many: bool) -> str:
    """Return what a member does, or its worker that it waits for."""
    worker = busy_worker(state)
    if worker is None:
        does = activity(state) + ("" if many else _awaited_program(case, state))
        does += peer + _fillers_of_queue(case, state)
        return does.replace(" for its ", " for their ") if many else does
    child = case.member(state.member).children[worker[0]]
    number = f" (pid {child.pid})" if child.pid is not None else ""
    file = _on_file(child.processes, worker[1])
    stopped = "stopped by a signal, " if worker[1].stopped else ""
    of_pool = state.place is not None and waits_for_pool(state.place)
    owner = f"{case.member(state.member).name}'s" if many else "its"
    whose = f"a worker of {owner} process pool" if of_pool else f"{owner} DataLoader worker"
    cpu = motion(child.dumps, child.processes).cpu
    burns = ", at full CPU," if cpu is not None and cpu > SPINNING else ""
    return f"{whose}{number} is {stopped}{worker[1].says}{file}{burns}"


def _awaited_program(case: Case, state: RankState) -> str:
    """Name the program that a member waits for, where it is one only, and what it waits for."""
    if state.place is None or state.place.kind is not WaitKind.SUBPROCESS:
        return ""
    member = case.member(state.member)
    known = [
        f" (pid {child.pid}, {place.says}{f' at {in_words(place.user)}' if place.user else ''})"
        for child, place in zip(member.children, state.children, strict=False)
        if place is not None and place.kind is not WaitKind.IDLE
    ]
    if known:
        return known[0] if len(known) == 1 else ""
    last = [helper.processes[-1] for helper in member.helpers if helper.processes]
    own = [process for process in last if process.ppid == member.pid and not process.dead]
    if len(own) != 1:
        return ""
    kernel = from_kernel(own[0].wchan)
    waits = f", {kernel.says}" if kernel is not None and kernel.firm else ""
    return f" ({program(own[0].command) or 'a process'}, pid {own[0].who.pid}{waits})"


def _fillers_of_queue(case: Case, state: RankState) -> str:
    """Say of a process that waits at a queue of its own threads which of these could fill it.

    None, where it has no other thread; one that waits for room in another queue comes to no end
    before that is emptied.
    """
    place, member = state.place, case.member(state.member)
    if is_left_alone(case, state):
        return ", with no other thread left"
    if place is None or place.kind is not WaitKind.QUEUE or not (member.processes and member.dumps):
        return ""
    frame = place.frame
    file = frame.file.rpartition("/")[2] if frame is not None else ""
    gets = frame is not None and (last_name(frame), file) == ("get", "queue.py")
    full = (thread for thread in member.dumps[-1].threads if gets and _is_full(thread))
    for thread in full:
        if (user := user_frame(thread.frames)) is not None:
            name = f'its thread "{thread.name or thread.tid}" at {in_words(user)}'
            return f", while {name} waits for room in another one that is full,"
    return ""


def _is_full(thread: Thread) -> bool:
    """Return whether a thread waits until there is room in a queue of the process."""
    calls = [(last_name(f), f.file.rpartition("/")[2]) for f in thread.frames if not f.native]
    return calls[:2] == [("wait", "threading.py"), ("put", "queue.py")]


def _calls(case: Case, affected: tuple[int, ...]) -> list[Phrase]:
    chosen = set(affected)
    calls = [m.says for m in case.graph.operations if chosen & set(m.members)]
    if not calls:
        places = (case.states[number].place for number in sorted(chosen))
        calls = [p.says for p in places if p is not None and p.says.manner is not Manner.DOING]
    named = [call for call in calls if call != UNNAMED]
    return list(dict.fromkeys((named or calls)[:3]))
