"""Ranks that all wait, and whose stacks show that they cannot meet: how far apart they are.

One compiles or creates a group while the others are elsewhere, or calls stand on two threads.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Thread, replace
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, in_vain, places_of
from whyhang.analyzer.queries.waits.states import (
    WAITERS,
    all_wait,
    collective_beside,
    count,
    kinds_of,
)
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wording.describe import call_of, collective_of, evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def _compilation(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait inside a compilation, while others wait outside."""
    if not all_wait(case):
        return
    waiting = [s for s in case.states if s.status in WAITERS and s.place is not None]
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


def _group_creation(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames those who do not take part, if they are known to be elsewhere."""
    meetings = {m.kind: m for m in case.graph.operations}
    creating = meetings.get(WaitKind.GROUP)
    if creating is None or case.graph.progress or case.graph.lagging:
        return
    inside = set(creating.members)
    outside = tuple(
        s.member
        for s in case.states
        if s.member not in inside and s.status in WAITERS and s.place is not None
    )
    if not outside:
        return
    few = count(case, outside) < count(case, creating.members)
    blamed = outside if few else creating.members
    shown = [case.states[outside[0]], case.states[creating.members[0]]]
    fields = subject_fields(case, [case.states[n] for n in blamed], creating.members)
    fields["inside"] = case.names(creating.members)
    fields["create"] = "creates" if count(case, creating.members) == 1 else "create"
    fields["outside"] = case.names(outside)
    yield Hit(
        members=blamed,
        affected=creating.members if few else outside,
        names_culprit=few,  # of as many outside, some may be no members of that group
        evidence=tuple(piece for state in shown for piece in evidence_of(case, state)),
        collective=collective_of(creating),
        location=location_of(case, case.states[blamed[0]]),
        fields=fields,
    )


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
    yield in_vain(
        case,
        members,
        (s.member for s in case.states if s.status in WAITERS),
        evidence=(
            piece
            for at in (state, replace(state, place=beside))
            for piece in evidence_of(case, at)[:1]
        ),
        strength=strength * (GUESSED if case.job.absent else CLEAR),
        collective=call_of(case, members),
        main=str(state.place.says.call) if state.place is not None else "a collective",
        thread=beside.thread or str(beside.tid),
        other=str(beside.says.call),
        there=f" at {in_words(beside.user)}" if beside.user is not None else "",
    )


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
    yield Hit(
        members=tuple(threads),
        affected=tuple(inside),
        strength=INCOMPLETE,
        evidence=(
            *evidence_of(case, replace(state, place=beside))[:1],
            *evidence_of(case, few[0])[:1],
        ),
        collective=call_of(case, inside),
        location=location_of(case, replace(state, place=beside)),
        fields={
            **subject_fields(case, [few[0]], inside),
            "thread": beside.thread or "",
            "other": str(beside.says.call),
            "there": f" at {in_words(beside.user)}" if beside.user is not None else "",
        },
    )


def _named_thread(case: Case, state: RankState, name: str | None) -> Thread | None:
    """Return the thread of this name in the last stacks of a member, beside its main thread."""
    dumps = case.member(state.member).dumps
    threads = dumps[-1].threads if dumps and name else ()
    return next((thread for thread in threads if thread.name == name), None)


def stacks_diverge(
    case: Case, by: Literal["compilation", "group-creation", "threads", "helper-thread"]
) -> Iterable[Hit]:
    """Yield hits for ranks that diverge at a compile, a new group, or in a second thread."""
    sides = {
        "compilation": _compilation,
        "group-creation": _group_creation,
        "threads": _threads,
        "helper-thread": _helper_thread,
    }
    return sides[by](case)
