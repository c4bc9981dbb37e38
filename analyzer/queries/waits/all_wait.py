"""All ranks wait: in one operation, on several groups, or where they cannot meet."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import CallArgument, Frame, ranks_in_words, replace
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.signature import CLEAR, CONTRADICTED, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import hit_about, in_vain, places_of
from whyhang.analyzer.queries.waits.states import (
    WAITERS,
    all_recorded,
    all_wait,
    collective_beside,
    count,
    kinds_of,
)
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Collective
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.usercode import in_words, line_of, short
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import call_of, collective_of, evidence_of, location_of
from whyhang.analyzer.wording.title_fields import subject_fields


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
    yield in_vain(
        case,
        meeting.members,
        meeting.members,
        collective=call_of(case, meeting.members),
        evidence=evidence_of(case, case.states[meeting.members[0]]),
        strength=_trust(case, meeting),
        located=len(meeting.sites) < 2,
        call=meeting.op,
        **_in_one_call_words(case, meeting),
    )


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
    yield in_vain(
        case,
        graph.waiting,
        graph.waiting,
        collective=call_of(case, graph.waiting),
        evidence=evidence_of(case, case.states[graph.waiting[0]]),
        call=" and ".join(operation.op for operation in graph.operations[:2]),
    )


def _in_one_call_words(case: Case, meeting: PendingOperation) -> dict[str, str]:
    """Say who stands in the call: all ranks, or all that were looked at."""
    where = f"{meeting.op}{_sites(meeting)} and none comes back"
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
    processes = (process for n in meeting.members for process in case.member(n).processes[-1:])
    if any(process.state == "D" for process in processes):
        strength *= CONTRADICTED
    return strength * INCOMPLETE if len(meeting.sites) > 1 else strength


def _sites(meeting: PendingOperation) -> str:
    if len(meeting.sites) < 2:
        return ""
    return f", at different places ({', '.join(meeting.sites[:4])})"


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
    if not twofold:
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


def stacks_diverge(
    case: Case, by: Literal["compilation", "group-creation", "threads"]
) -> Iterable[Hit]:
    """Yield hits for ranks that diverge at a compile, a new group, or in two threads."""
    sides = {"compilation": _compilation, "group-creation": _group_creation, "threads": _threads}
    return sides[by](case)


MAX_CALL_LINES = 8
DEFAULT_GROUP = "the default group"

_WORLD = {"None", "dist.group.WORLD", "group.WORLD", "torch.distributed.group.WORLD"}

# dist.all_reduce(x, group=self.tp_group): the whole argument, by name. Given by position, by a
# helper's own argument, by a condition or an index that may differ, the line says nothing.
_GROUP = re.compile(
    r"[(,]\s*(?:process_)?group\s*=\s*(?:(?P<group>[\w.]+(?:\[(?:\d+|'[^']*'|\"[^\"]*\")\])*)\s*(?=[,)]))?"
)
# A name that any group may have in a function of its own: the same as another's, or not.
_ANY = re.compile(r"(?:\w+\.)*(?:\w|(?:process_)?group|pg|comm|communicator)")
# comm.allreduce(x) of mpi4py: the object itself is the group.
_COMM = r"(?P<group>[\w.]+(?:\[[^\]]*\])*)\s*\.\s*{op}\s*\("


def groups_crossed(case: Case, kind: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if the line of every rank names its group."""
    operations = case.graph.operations
    if not all_wait(case) or case.job.absent or any(m.kind is not kind for m in operations):
        return
    states = [case.states[n] for meeting in operations for n in meeting.members]
    by_group: dict[str, list[RankState]] = {}
    for state in states:
        group = _group_of(case, state, kind)
        if group is None:
            return
        by_group.setdefault(group, []).append(state)
    functions = {(f.file, f.function) for s in states if s.place and (f := s.place.user)}
    if len(functions) > 1 and any(map(_ANY.fullmatch, by_group)):
        return
    if len(by_group) < 2:
        return
    sides = sorted(by_group.items(), key=lambda side: side[1][0].member)
    first = sides[0][1][0].place
    yield in_vain(
        case,
        [states[0].member for _, states in sides],
        (state.member for state in states),
        collective=Collective(op=(first.op if first else None) or "a collective"),
        located=False,
        sides="; ".join(_side(case, group, states) for group, states in sides),
    )


def _group_of(case: Case, state: RankState, kind: WaitKind) -> str | None:
    place = state.place
    if place is None or place.user is None or not place.certain:
        return None
    if (given := _group_given(case, state)) is not None:
        return given
    text = _call_text(case, place.user)
    if text is None:
        return None
    if kind is WaitKind.MPI:
        if (place.op or "").startswith("wait"):
            return None  # a method of a request, which does not tell its communicator
        name = (place.op or "").replace("_", "")
        call = re.search(_COMM.format(op=re.escape(name)), text, re.IGNORECASE) if name else None
        return call["group"] if call else None
    if not any(name and f"{name}(" in text for name in (place.op, place.api)):
        return None
    argument = _GROUP.search(text)
    if argument:
        group = argument["group"]
        if group is None:
            return None
        return DEFAULT_GROUP if group in _WORLD else group.removeprefix("self.").strip("_")
    # without a keyword the group may still stand there by position
    return DEFAULT_GROUP if text.count(",") == 0 else None


def _group_given(case: Case, state: RankState) -> str | None:
    """Return the group that a rank's call was given, where its variables tell which one it is."""
    user = state.place.user if state.place is not None else None
    at = (short(user.file), user.line) if user is not None else None
    given = [
        fact.value
        for fact in case.job.of(CallArgument)
        if fact.name in {"group", "process_group"}
        and fact.stands
        and (fact.file, fact.line) == at
        and case.job.member_of(fact.who) == case.member(state.member)
    ]
    return given[-1].removeprefix("self.").strip("_") if given else None


def names_its_own_group(case: Case, one: RankState, others: Sequence[RankState]) -> bool:
    """Return whether the line of a rank names a group, and those of the others name another one.

    Who belongs to it the lines do not tell: it may wait there for a rank that is among the others.
    """
    kinds = {state.place.kind for state in (one, *others) if state.place is not None}
    kind = next(iter(kinds), None)
    if len(kinds) != 1 or kind is None:
        return False
    mine = _group_of(case, one, kind)
    if mine in {None, DEFAULT_GROUP} or _ANY.fullmatch(mine or ""):
        return False
    return all(_group_of(case, other, kind) not in {None, mine} for other in others)


def group_is_open(case: Case, state: RankState) -> bool:
    """Return whether the line of a rank's call gives a group that may be another on each rank.

    So do a condition and an index: ``group=tp if rank < 4 else None``, ``group=groups[rank % 2]``.
    """
    frame = state.place.user if state.place is not None else None
    text = _call_text(case, frame) if frame is not None else None
    argument = _GROUP.search(text) if text is not None else None
    is_open = argument is not None and argument["group"] is None
    return is_open and _group_given(case, state) is None


def _call_text(case: Case, frame: Frame) -> str | None:
    """Return the source of the call that a frame stands in, up to its last bracket."""
    for piece in case.job.excerpts:
        start = (frame.line or 0) - piece.first_line
        if piece.file == frame.file and 0 <= start < len(piece.lines):
            text = ""
            for line in piece.lines[start : start + MAX_CALL_LINES]:
                text += line.partition(" #")[0]
                if text.count("(") <= text.count(")"):
                    return text
    return None


def _side(case: Case, group: str, states: list[RankState]) -> str:
    place = states[0].place
    frame = place.user if place is not None else None
    where = f" ({line_of(frame)})" if frame is not None else ""
    ranks = case.ranks(s.member for s in states)
    who = ranks_in_words(ranks) if ranks else case.names(s.member for s in states)
    op = place.op if place is not None else "a collective"
    return f"{who} in {op} on {group}{where}"
