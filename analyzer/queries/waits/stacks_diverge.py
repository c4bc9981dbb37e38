"""Ranks that wait, and whose stacks show that they cannot meet."""

from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, places_of
from whyhang.analyzer.queries.waits.states import (
    WAITERS,
    all_seen,
    collective_beside,
    count,
    kinds_of,
)
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wording.describe import call_of, collective_of, evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


def _compilation(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that wait inside a compilation, while others wait outside."""
    graph = case.graph
    if graph.lagging or graph.progress or not all_seen(case) or case.job.missing:
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
        collective=collective_of(case, creating),
        location=location_of(case, case.states[blamed[0]]),
        fields=fields,
    )


def _threads(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody: which rank was first in the wrong call is not seen."""
    graph = case.graph
    if graph.lagging or graph.progress or not all_seen(case) or case.job.missing:
        return
    if any(operation.kind is not WaitKind.COLLECTIVE for operation in graph.operations):
        return
    twofold = [(s, beside) for s in case.states if (beside := collective_beside(s)) is not None]
    if not twofold:
        return
    state, beside = twofold[0]
    members = tuple(s.member for s, _ in twofold)
    affected = tuple(sorted(s.member for s in case.states if s.status in WAITERS))
    fields = subject_fields(case, [s for s, _ in twofold], ())
    fields |= {
        "main": str(state.place.says.call) if state.place is not None else "a collective",
        "thread": beside.thread or str(beside.tid),
        "other": str(beside.says.call),
        "there": f" at {in_words(beside.user)}" if beside.user is not None else "",
    }
    strength = CLEAR if len(graph.operations) == 1 else INCOMPLETE
    yield Hit(
        affected=affected,
        evidence=tuple(
            piece
            for at in (state, replace(state, place=beside))
            for piece in evidence_of(case, at)[:1]
        ),
        names_culprit=False,
        strength=strength * (GUESSED if case.job.absent else CLEAR),
        collective=call_of(case, members),
        location=location_of(case, state),
        fields=fields,
    )


def stacks_diverge(
    case: Case, by: Literal["compilation", "group-creation", "threads"]
) -> Iterable[Hit]:
    """Yield hits for ranks that diverge at a compile, a new group, or in two threads."""
    sides = {"compilation": _compilation, "group-creation": _group_creation, "threads": _threads}
    return sides[by](case)
