"""Ranks that all wait: in one call, for others that were not seen, or where they cannot meet.

One compiles or creates a group while the others are elsewhere, or calls stand on two threads.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Thread, grouped, ranks_in_words, replace
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.registry import query, side
from whyhang.analyzer.queries.waits.left_loops import condition_on, only_counts_turns
from whyhang.analyzer.queries.waits.message_partners import ring_in_words, ring_of
from whyhang.analyzer.queries.waits.states import (
    all_recorded,
    all_wait,
    collective_beside,
    count,
    kinds_of,
)
from whyhang.analyzer.rank_state.over_time.job_progress import step_counters
from whyhang.analyzer.rank_state.state import IN_STEP, RankState, Status
from whyhang.analyzer.report import Evidence
from whyhang.analyzer.stacks import Place, WaitKind
from whyhang.analyzer.stacks.source_blocks import MAX_BLOCK, indent, lines_at, rank_branch
from whyhang.analyzer.stacks.source_paths import comes_first, fork
from whyhang.analyzer.stacks.usercode import in_words, line_of, user_frame
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import (
    call_of,
    collective_of,
    evidence_of,
    location_of,
    path_of,
    quoted,
)
from whyhang.analyzer.wording.fill_texts import sentence
from whyhang.analyzer.wording.ways_past import branch_in_words

SERVES_CALLS = "torch/distributed/rpc/internal.py"
"""Has the function in which a thread of a rank answers the call of another one."""

MOST_PLACES = 3
"""Places of one call that are named with their ranks."""


@side("stacks_diverge", by="compilation")
def _compilation(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait inside a compilation, while others wait outside."""
    if not all_wait(case):
        return
    waiting = [s for s in case.states if s.status in IN_STEP and s.place is not None]
    inside = [s for s in waiting if WaitKind.COMPILE in kinds_of(s)]
    members = tuple(s.member for s in inside)
    others = tuple(s.member for s in waiting if s not in inside)
    if not members or not others:
        return
    few = count(case, members) < count(case, others)
    place = inside[0].place
    yield hit_about(
        case,
        members,
        others,
        names_culprit=few,
        evidence=places_of(case, members[0], others[0]),
        collective=call_of(case, members),
        fields={"own": str(place.says.call) if place is not None else "a collective"},
    )


_IN_ANOTHER_ORDER = (
    " {names} went through that line before: they have created their groups, and some rank has "
    "created them in another order, or with other members."
)


@side("stacks_diverge", by="group-creation")
def _group_creation(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames those who do not take part, if they are known to be elsewhere.

    Nobody where they have come through that line: they have created their groups, and what differs
    is the order, or the group.
    """
    meetings = {m.kind: m for m in case.graph.operations}
    creating = meetings.get(WaitKind.GROUP)
    if creating is None or case.graph.progress or case.graph.lagging:
        return
    waiting = (s.member for s in case.states if s.status in IN_STEP and s.place is not None)
    outside = tuple(number for number in waiting if number not in creating.members)
    if not outside:
        return
    come_past = all(
        any(_came_through(case, case.states[n], case.states[other]) for n in creating.members)
        for other in outside
    )
    few = not come_past and count(case, outside) < count(case, creating.members)
    both = (outside[0], creating.members[0])
    names = case.names(outside)
    hit = hit_about(
        case,
        outside if few else creating.members,
        creating.members,
        evidence=[piece for number in both for piece in evidence_of(case, case.states[number])],
        fields={
            "inside": case.names(creating.members),
            "create": "creates" if count(case, creating.members) == 1 else "create",
            "outside": names,
            "without": f"that {names} went past" if come_past else f"without {names}",
            "past": _IN_ANOTHER_ORDER.format(names=names) if come_past else "",
        },
        names_culprit=few,  # of as many outside, some may be no members of that group
        collective=collective_of(creating),
    )
    yield hit if few else replace(hit, affected=outside)


def _came_through(case: Case, creating: RankState, other: RankState) -> bool:
    """Return whether a rank further down has come through the line that creates a group.

    What is asked on the way there counts turns, and is alike on all ranks.
    """
    path, its = path_of(case, creating), path_of(case, other)
    if comes_first(path, its, case.text):
        return True
    forked = fork(path, its)
    if forked is None or (forked[0].line or 0) >= (forked[1].line or 0):
        return False
    condition = condition_on(case, creating, other)
    alike = not condition or only_counts_turns(condition)
    return alike and rank_branch(path, case.text) is None


@side("stacks_diverge", by="threads")
def _threads(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody: which rank was first in the wrong call is not seen."""
    operations = case.graph.operations
    if not all_wait(case) or any(each.kind is not WaitKind.COLLECTIVE for each in operations):
        return
    twofold = [(s, beside) for s in case.states if (beside := collective_beside(s)) is not None]
    if not twofold or any(_helper_thread(case)):
        return
    state, beside = twofold[0]
    members = tuple(s.member for s, _ in twofold)
    strength = CLEAR if len(operations) == 1 else INCOMPLETE
    yield hit_about(
        case,
        (),
        (s.member for s in case.states if s.status in IN_STEP),
        shown=members,
        evidence=(*places_of(case, state.member), *_places_beside(case, state, beside)),
        fields={
            "main": str(state.place.says.call) if state.place is not None else "a collective",
            "thread": beside.thread or str(beside.tid),
            **_beside_in_words(beside),
        },
        strength=strength * (GUESSED if case.job.absent else CLEAR),
        collective=call_of(case, members),
    )


@side("stacks_diverge", by="helper-thread")
def _helper_thread(case: Case) -> Iterator[Hit]:
    """Yield one hit for few ranks whose helper thread is not in the collective of its like.

    The main threads of all wait; a thread of most waits for ranks as well, and on few that thread
    is there and has nothing to do: it was done with its part, or gave it up.
    """
    if not all_wait(case):
        return
    twofold = [(s, beside) for s in case.states if (beside := collective_beside(s)) is not None]
    names = {beside.thread for _, beside in twofold}
    inside = [state.member for state, _ in twofold]
    few = [state for state in case.states if state.member not in inside]
    if len(names) != 1 or not few or len(few) >= len(inside):
        return
    threads = {s.member: _named_thread(case, s, next(iter(names))) for s in few}
    if any(thread is None for thread in threads.values()):
        return
    state, beside = twofold[0]
    hit = hit_about(
        case,
        threads,
        inside,
        shown=[few[0].member],
        evidence=(*_places_beside(case, state, beside), *places_of(case, few[0].member)),
        fields={"thread": beside.thread or "", **_beside_in_words(beside)},
        strength=INCOMPLETE,
        collective=call_of(case, inside),
    )
    yield replace(hit, location=location_of(case, replace(state, place=beside)))


def _places_beside(case: Case, state: RankState, beside: Place) -> list[Evidence]:
    """Cite what places another thread of a member than its main one."""
    return evidence_of(case, replace(state, place=beside))[:1]


def _beside_in_words(beside: Place) -> dict[str, str]:
    """Return in which call another thread is, and where."""
    there = f" at {in_words(beside.user)}" if beside.user is not None else ""
    return {"other": str(beside.says.call), "there": there}


def _named_thread(case: Case, state: RankState, name: str | None) -> Thread | None:
    """Return the thread of this name in the last stacks of a member, beside its main thread."""
    dumps = case.member(state.member).dumps
    threads = dumps[-1].threads if dumps and name else ()
    return next((thread for thread in threads if thread.name == name), None)


@query
def all_in_one_call(case: Case, *kinds: WaitKind, says: tuple[str, ...] = ()) -> Iterator[Hit]:
    """Yield one hit that blames nobody; ``kinds`` and words in what it ``says`` limit the call."""
    if not all_wait(case) or len(case.graph.operations) != 1 or all_recorded(case):
        return
    meeting = case.graph.operations[0]
    if kinds and (meeting.kind not in kinds or case.job.absent):
        return
    if says and not any(word in str(meeting.says) for word in says):
        return
    others = [s for s in case.states if s.member not in set(meeting.members)]
    ranked = any(case.member(s.member).rank is not None for s in others)
    if len(meeting.members) < 2 or ranked:
        return
    places = _places_in_words(case, meeting)
    ring = ring_of(case, meeting.members)
    yield hit_about(
        case,
        (),
        meeting.members,
        shown=meeting.members,
        evidence=[
            piece
            for number in ring[:2] or meeting.members[:1]
            for piece in evidence_of(case, case.states[number])
        ],
        fields={
            "call": meeting.op,
            **_in_one_call_words(case, meeting),
            **places,
            **({"at": places["places"], "where": "these lines"} if len(meeting.sites) > 1 else {}),
            "each": f": {ring_in_words(case, ring, meeting.members)}"
            if ring
            else ", each for another one that does not answer it",
            "served": _served_in_words(case, meeting),
            "behind": _furthest_behind_in_words(case, meeting),
            "below": _receive_below_in_words(case, meeting),
        },
        strength=_trust(case, meeting),
        collective=call_of(case, meeting.members),
        located=len(meeting.sites) < 2,
    )


@query
def only_waiters(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit if whoever was seen waits in operations of these kinds, and not all were.

    Where a rank stood as it lost a peer is no wait.
    """
    graph = case.graph
    dumps = [dump for number in graph.waiting for dump in case.member(number).dumps]
    if not dumps or any(dump.tool == EXCEPTION_STACK for dump in dumps):
        return
    seen = {s.member for s in case.states if s.status is not Status.UNSEEN}
    if graph.progress or not graph.waiting or seen != set(graph.waiting):
        return
    if any(operation.kind not in kinds for operation in graph.operations):
        return
    yield hit_about(
        case,
        (),
        graph.waiting,
        shown=graph.waiting,
        evidence=evidence_of(case, case.states[graph.waiting[0]]),
        fields={"call": " and ".join(operation.op for operation in graph.operations[:2])},
        collective=call_of(case, graph.waiting),
    )


def _places_in_words(case: Case, meeting: PendingOperation) -> dict[str, str]:
    """Say who stands where in the call, and which branch led the fewest there."""
    users = ((n, user) for n in meeting.members if (user := case.states[n].user) is not None)
    by_site = grouped(users, lambda each: line_of(each[1]))
    if not 1 < len(by_site) <= MOST_PLACES:
        return {"places": "", "branch": ""}
    sites = {tuple(n for n, _ in own): own[0][1] for own in by_site.values()}
    words = (f"{case.names(members)} at {in_words(user)}" for members, user in sites.items())
    few = min(sites, key=lambda members: count(case, members))
    branch = branch_in_words(case, few) if count(case, few) * 2 <= len(meeting.members) else ""
    return {"places": f": {', '.join(words)}", "branch": f" {sentence(branch)}." if branch else ""}


def _receive_below_in_words(case: Case, meeting: PendingOperation) -> str:
    """Say where the receive stands that all ranks come to behind the send in which they wait."""
    user, text = case.states[meeting.members[0]].user, case.text
    if len(meeting.sites) != 1 or "send" not in meeting.op or user is None:
        return ""
    depth = indent(text(user) or "")
    numbers = range((user.line or 0) + 1, (user.line or 0) + MAX_BLOCK)
    for below, line in lines_at(user, numbers, text):
        if line.strip() and indent(line) < depth:
            break
        if _RECEIVES.search(line):
            receive = quoted(below, text)
            return (
                f" Here all stand in one line, and {receive} is further down: each waits for "
                "another to come there, once its message is too large to be kept on the way."
            )
    return ""


_RECEIVES = re.compile(r"\.(?:[Rr]ecv|irecv|Irecv)\(")


def _furthest_behind_in_words(case: Case, meeting: PendingOperation) -> str:
    """Say who is the furthest behind of these ranks, by all that they count alike; else nothing.

    What the others wait for may follow from that; what it waits for itself does not.
    """
    counters = step_counters(case.job)
    counted = [{c: v[-1] for c, v in counters.get(n, {}).items()} for n in meeting.members]
    common = [c for c in counted[0] if all(c in of_member for of_member in counted)]
    behind: dict[tuple[int, ...], str] = {}
    for counter in common:
        values = [of_member[counter] for of_member in counted]
        least, most = min(values), max(values)
        few = tuple(n for n, v in zip(meeting.members, values, strict=True) if v == least)
        if least < most:
            rest = {v for v in values if v > least}
            last = str(most) if len(rest) == 1 else f"{min(rest)} to {most}"
            behind[few] = f"at {counter[0]}={least}, the others at {last}"
    if len(behind) != 1:
        return ""
    ((few, words),) = behind.items()
    if len(few) * 2 >= len(meeting.members):
        return ""
    return f" Begin with {case.names(few)}, the furthest behind: {words}."


def _served_in_words(case: Case, meeting: PendingOperation) -> str:
    """Say where the calls stand that these ranks serve for each other."""
    stacks = (
        t.frames for n in meeting.members for d in case.member(n).dumps[-1:] for t in d.threads
    )
    served = [user_frame(s) for s in stacks if any(f.file.endswith(SERVES_CALLS) for f in s)]
    places = list(dict.fromkeys(in_words(user) for user in served if user is not None))
    if not places:
        return ""
    return f" The calls that they serve stand at {', '.join(places[:MOST_PLACES])}."


def _in_one_call_words(case: Case, meeting: PendingOperation) -> dict[str, str]:
    """Say who stands in the call: all ranks, or all that were looked at."""
    sites = ", ".join(meeting.sites[:4])
    where = meeting.op + (f", at different places ({sites})" if len(meeting.sites) > 1 else "")
    where += " and none comes back"
    if not case.job.absent:
        seen = f"Everyone that was seen is inside {meeting.op}; no rank is missing."
        return {"says": f"All ranks stand in {where}", "seen": seen}
    who, others = case.names(meeting.members), ranks_in_words(case.job.absent)
    verb = "was" if len(case.job.absent) == 1 else "were"
    return {
        "says": f"Of the {case.job.world_size} ranks {who.removeprefix('ranks ')} stand in "
        f"{where}; {others} {verb} not looked at",
        "seen": f"{who[:1].upper()}{who[1:]} are inside {meeting.op}. Nothing is known of "
        f"{others}: who has not come may be among them, on a host that was not looked at. If all "
        "have come:",
    }


def _trust(case: Case, meeting: PendingOperation) -> float:
    """Return how sure it is that all ranks are in one call.

    Ranks that nobody saw may be elsewhere, one look may have caught them in passing, and the
    same operation at several places may be several groups. Who sleeps in the kernel's file or
    page I/O is on its way through the program, whatever frame it was caught in.
    """
    strength = GUESSED if case.job.absent else CLEAR
    if case.graph.snapshots < 2:
        strength *= INCOMPLETE
    processes = (case.member(number).last for number in meeting.members)
    if any(process is not None and process.state == "D" for process in processes):
        strength *= CONTRADICTED
    return strength * INCOMPLETE if len(meeting.sites) > 1 else strength
