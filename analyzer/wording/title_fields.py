"""The fields that titles and texts of signatures may name, filled for the ranks of a finding."""

import re
from collections.abc import Iterable, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Process, Who, program
from whyhang.analyzer.rank_state.state import RankState, busy_worker, waits_for_pool
from whyhang.analyzer.stacks import UNNAMED, Phrase, Place, WaitKind
from whyhang.analyzer.stacks.guesses import from_kernel
from whyhang.analyzer.stacks.source_blocks import heads
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import in_words, is_library, user_frame
from whyhang.analyzer.wording.describe import (
    POOL,
    activity,
    duration,
    location_of,
    other_end,
    pid_in_words,
)

_TAKES_LOCK = re.compile(r"\s*(?:async\s+)?with\b.*(?:lock|mutex|sem)", re.IGNORECASE)


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
        "its": "their" if many else "its",
        "gone": _gone(states, many=many),
        "partner": _other_lock(case, states),
        "does": _does(case, states),
        "io": _io(case, states),
        "on": _on(case, states),
        "peer": _peer(case, states),
        "where": str(place or "an unknown place"),
        "look": f"Look at {place}"
        if place is not None
        else f"Find out where {who} {'are' if many else 'is'}",
        "at": f" at {place}" if place else "",
        "since": _since(case, states),
        "lasting": _lasting(states),
        "loads": _loads(states),
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
    file = _on_file(case.member(states[0].member).processes, place)
    return f"{place.says}{file}{_peer(case, states)}"


def _peer(case: Case, states: list[RankState]) -> str:
    """Name who is at the other end of what these members read or write, if it is one process."""
    ends = {other_end(case, state) for state in states}
    end = ends.pop() if len(ends) == 1 else None
    if end is None:
        return ""
    rank = case.job.member_of(Who(host=case.member(states[0].member).host, pid=end.pid))
    name = program(end.command) or "a process"
    return f" ({name if rank is None else rank.name}, pid {end.pid})"


def _on(case: Case, states: list[RankState]) -> str:
    """Return a sentence on the file that the first member waits for, where that is known."""
    place = states[0].place if states else None
    file = _on_file(case.member(states[0].member).processes, place) if place is not None else ""
    return f" The call is{file}." if file else ""


def _on_file(processes: Sequence[Process], place: Place) -> str:
    """Return on which file and file system a thread of a process waits, as far as known."""
    thread = next((t for p in processes[-1:] for t in p.threads if t.tid == place.tid), None)
    if thread is None or thread.file is None:
        return ""
    return f" on {thread.file}{f' ({thread.mount})' if thread.mount else ''}"


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


def _loads(states: list[RankState]) -> str:
    """Return who loads the batch that the first member waits for: its workers, or it alone."""
    place = states[0].place if states else None
    if place is None or place.kind is WaitKind.DATALOADER or states[0].children:
        return "Batches come in order, so one stuck worker is enough."
    return "It loads in its own process (num_workers=0): nothing else can bring that batch."


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
    if place is not None and place.kind is WaitKind.SUBPROCESS:
        return {"helper": "child process", "batch": "result"}
    return {"helper": "DataLoader worker", "batch": "batch"}


def _gone(states: list[RankState], *, many: bool) -> str:
    """Say how processes ended that are no more, if all in one way; else that they are no more."""
    ways = {state.end.how.partition(":")[0] if state.end is not None else "" for state in states}
    how = next(iter(ways)) if len(ways) == 1 else ""
    return f"ended with {how}" if how else f"{'have' if many else 'has'} no living process"


def _plural(case: Case, members: list[int]) -> bool:
    return len(members) > 1 or any(case.member(number).copies > 1 for number in members)


def _other_lock(case: Case, states: list[RankState]) -> str:
    """Name another thread of the first member in the user's code: the one that has the lock.

    It is in a block that takes one; where none is seen, any that stands there as well.
    """
    if not states or states[0].place is None or not case.member(states[0].member).dumps:
        return ""
    dump = case.member(states[0].member).dumps[-1]
    text = source_lines(case.job.excerpts)
    others = []
    for thread in dump.threads:
        user = user_frame(thread.frames)
        if thread.tid == states[0].place.tid or user is None or is_library(user):
            continue
        name = f"thread {thread.name or thread.tid} at {in_words(user)}"
        if any(_TAKES_LOCK.match(text(head) or "") for head in heads(user, text)):
            return f"; {name} seems to hold it"
        others.append(name)
    return f", and {others[0]} of the same process does not go on either" if others else ""


def _does(case: Case, states: list[RankState]) -> str:
    if not states:
        return ""
    worker = busy_worker(states[0])
    if worker is None:
        does = activity(states[0])
        many = _plural(case, [state.member for state in states])
        does += "" if many else _awaited_program(case, states[0])
        does += _peer(case, states) + _alone_at_queue(case, states[0])
        return does.replace(" for its ", " for their ") if many else does
    child = case.member(states[0].member).children[worker[0]]
    number = f" (pid {child.pid})" if child.pid is not None else ""
    file = _on_file(child.processes, worker[1])
    stopped = "stopped by a signal, " if worker[1].stopped else ""
    of_pool = states[0].place is not None and waits_for_pool(states[0].place)
    name = case.member(states[0].member).name
    whose = f"a worker of {POOL}" if of_pool else "its DataLoader worker"
    if _plural(case, [state.member for state in states]):
        whose = f"a worker of {name}'s process pool" if of_pool else f"{name}'s DataLoader worker"
    return f"{whose}{number} is {stopped}{worker[1].says}{file}"


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


def _alone_at_queue(case: Case, state: RankState) -> str:
    """Say of a process that waits at a queue of its own threads that it has no other thread."""
    place, member = state.place, case.member(state.member)
    if place is None or place.kind is not WaitKind.QUEUE or not (member.processes and member.dumps):
        return ""
    own = place.frame is not None and place.frame.file.rpartition("/")[2] == "queue.py"
    last = member.dumps[-1]
    alone = own and not last.main_only and len(last.threads) == 1
    return ", with no other thread left" if alone else ""


def _single(members: tuple[int, ...], case: Case) -> bool:
    return len(members) == 1 and case.member(members[0]).copies == 1


def _calls(case: Case, affected: tuple[int, ...]) -> list[Phrase]:
    chosen = set(affected)
    calls = [m.says for m in case.graph.operations if chosen & set(m.members)]
    named = [call for call in calls if call != UNNAMED]
    return list(dict.fromkeys((named or calls)[:3]))
