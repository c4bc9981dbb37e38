"""All ranks wait for others: in one operation, in different ones, or in crossed groups."""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import Frame, RootArgument, ranks_in_words
from whyhang.analyzer.facts.exceptions import EXCEPTION_STACK
from whyhang.analyzer.findings.signature import (
    CLEAR,
    CONTRADICTED,
    GUESSED,
    INCOMPLETE,
    INDIRECT,
    Hit,
)
from whyhang.analyzer.queries.waits.states import all_recorded, all_seen, count
from whyhang.analyzer.rank_state.state import RankState, Status
from whyhang.analyzer.report import Collective, Evidence
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.source_blocks import comes_first, may_be_in_branch, rank_branch
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import short
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import (
    call_of,
    collective_of,
    evidence_of,
    location_of,
    path_of,
)
from whyhang.analyzer.wording.title_fields import subject_fields


def all_in_one_call(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody; ``kinds`` limits it to operations of these kinds."""
    graph = case.graph
    if graph.lagging or graph.progress or len(graph.operations) != 1 or case.job.missing:
        return
    if all_recorded(case):
        return
    meeting = graph.operations[0]
    if kinds and (meeting.kind not in kinds or case.job.absent):
        return
    others = [s for s in case.states if s.member not in set(meeting.members)]
    ranked = any(case.member(s.member).rank is not None for s in others)
    if len(meeting.members) < 2 or not all_seen(case) or ranked:
        return
    states = [case.states[number] for number in meeting.members]
    yield Hit(
        affected=meeting.members,
        evidence=tuple(evidence_of(case, states[0])),
        names_culprit=False,
        strength=_trust(case, meeting),
        collective=call_of(case, meeting.members),
        location=location_of(case, states[0]) if len(meeting.sites) < 2 else None,
        fields={
            **subject_fields(case, states, ()),
            "call": meeting.op,
            **_in_one_call_words(case, meeting),
        },
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
    states = [case.states[number] for number in graph.waiting]
    yield Hit(
        affected=graph.waiting,
        evidence=tuple(evidence_of(case, states[0])),
        names_culprit=False,
        collective=call_of(case, graph.waiting),
        location=location_of(case, states[0]),
        fields={
            **subject_fields(case, states, ()),
            "call": " and ".join(operation.op for operation in graph.operations[:2]),
        },
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


ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""
PEER_TO_PEER = ("send", "isend", "recv", "irecv", "probe", "mprobe")
LAST_CALL = "finalize"  # of MPI


def different_operations(case: Case, *kinds: WaitKind) -> Iterator[Hit]:
    """Yield one hit if all wait for others, but in different operations of these kinds.

    The fewest are where to look first; a tie names nobody.
    """
    graph = case.graph
    if graph.lagging or graph.progress or not all_seen(case) or all_recorded(case):
        return
    meetings = [m for m in graph.operations if m.kind in kinds]
    if len(meetings) != len(graph.operations) or len(meetings) < 2:
        return
    if any(_is_nameless(case, meeting) for meeting in meetings):
        return
    yield _different_hit(case, meetings)


def _is_nameless(case: Case, meeting: PendingOperation) -> bool:
    """Return whether only a number is known of a collective: it may be that of the others."""
    places = [case.states[number].place for number in meeting.members]
    return any(p is not None and p.op is None and p.frame is None for p in places)


def side_in_branch(case: Case, sides: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the one side all of whose members stand in a branch on the number of their rank.

    A call that only some ranks come to is the one too many; where another side may be in such a
    branch as well, none is returned, nor where some send or receive: each has a part of its own.
    """
    if any(operation.op.startswith(PEER_TO_PEER) for operation in case.graph.operations):
        return None
    text = source_lines(case.job.excerpts)
    paths = {n: path_of(case, case.states[n]) for side in sides for n in side}
    inside = [side for side in sides if all(rank_branch(paths[n], text) for n in side)]
    others = [n for side in sides if side not in inside for n in side]
    alone = len(inside) == 1 and not any(may_be_in_branch(paths[n], text) for n in others)
    return inside[0] if alone else None


def _different_hit(case: Case, meetings: list[PendingOperation]) -> Hit:
    counts = [count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    # A send or receive is one side of a pair: which side is wrong no numbers tell.
    paired = any(m.op.startswith(PEER_TO_PEER) for m in meetings)
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2 or paired
    if tie and len(meetings) == 2:
        alone = side_in_branch(case, [meeting.members for meeting in meetings])
        fewest = next((m for m in meetings if m.members == alone), fewest)
        tie = alone is None
    if tie and len(meetings) == 2 and (ending := [m for m in meetings if m.op == LAST_CALL]):
        fewest, tie = ending[0], False  # it makes no call any more that could meet the other
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    if min(counts) > 1 and not _never_came(case, fewest):
        tie = tie or any(m.op in ONE_SIDED for m in meetings if m is not fewest)
    others = [meeting for meeting in meetings if meeting is not fewest]
    tie = tie or _others_may_have_left(case, fewest, others)
    shown = [case.states[m.members[0]] for m in (fewest, *others)]
    waiting = tuple(sorted(n for meeting in others for n in meeting.members))
    same = len({m.op for m in meetings}) < len(meetings)
    sides = " and ".join(
        f"{case.names(m.members)} in {m.says.call if same else m.op}" + m.at
        for m in (fewest, *others)
    )
    # More than two operations, or point-to-point among them, is what pipelines and
    # nested groups look like when the one late rank is not among those seen.
    plain = len(meetings) == 2 and all(m.kind is not WaitKind.P2P for m in meetings)
    return Hit(
        members=() if tie else fewest.members,
        affected=tuple(sorted((*fewest.members, *waiting))) if tie else waiting,
        evidence=tuple(piece for state in shown for piece in evidence_of(case, state)),
        strength=(INDIRECT if not tie else INCOMPLETE) if plain else CONTRADICTED,
        names_culprit=not tie,
        collective=collective_of(case, fewest, ", ".join(m.op for m in others)),
        location=location_of(case, shown[0]) if not tie else None,
        fields={
            "sides": sides,
            "differ": "call different collectives",
            **subject_fields(case, [shown[0]], waiting),
        },
    )


def _others_may_have_left(
    case: Case, meeting: PendingOperation, others: Sequence[PendingOperation]
) -> bool:
    """Return whether the one rank in a call may be its root, and the others have come past it.

    Those that have done their part have gone on; it waits for the one that left the call out.
    """
    if len(meeting.members) != 1 or meeting.op not in ONE_SIDED:
        return False
    (rank,) = case.ranks(meeting.members) or (None,)
    roots = {call.root for call in case.job.of(RootArgument) if call.who.rank == rank}
    if roots and rank not in roots:
        return False
    text = source_lines(case.job.excerpts)
    path = path_of(case, case.states[meeting.members[0]])
    paths = [path_of(case, case.states[n]) for other in others for n in other.members]
    return all(comes_first(path, its, text) for its in paths)


def _never_came(case: Case, meeting: PendingOperation) -> bool:
    """Return whether all in an operation are recorded not to have made the others' call."""
    late = case.graph.calls.of(Verdict.NEVER_JOINED)
    return {rank for f in late for rank in f.culprits}.issuperset(case.ranks(meeting.members))


MAX_CALL_LINES = 8
DEFAULT_GROUP = "the default group"

_WORLD = {"None", "dist.group.WORLD", "group.WORLD", "torch.distributed.group.WORLD"}

# dist.all_reduce(x, group=self.tp_group): the argument by name. Given by position, or by a
# helper's own argument, the line says nothing.
_GROUP = re.compile(r"\b(?:process_)?group\s*=\s*(?P<group>[\w.]+(?:\[[^\]]*\])*)")
# comm.allreduce(x) of mpi4py: the object itself is the group.
_COMM = r"(?P<group>[\w.]+(?:\[[^\]]*\])*)\s*\.\s*{op}\s*\("


def groups_crossed(case: Case, kind: WaitKind) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if the line of every rank names its group."""
    graph = case.graph
    if graph.lagging or graph.progress or case.job.missing or case.job.absent:
        return
    if not all_seen(case) or any(m.kind is not kind for m in graph.operations):
        return
    states = [case.states[n] for meeting in graph.operations for n in meeting.members]
    by_group: dict[str, list[RankState]] = {}
    for state in states:
        group = _group_of(case, state, kind)
        if group is None:
            return
        by_group.setdefault(group, []).append(state)
    if len(by_group) > 1:
        yield _crossed_hit(case, by_group)


def _group_of(case: Case, state: RankState, kind: WaitKind) -> str | None:
    place = state.place
    if place is None or place.user is None or not place.certain:
        return None
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
        return DEFAULT_GROUP if group in _WORLD else group.removeprefix("self.").strip("_")
    # without a keyword the group may still stand there by position
    return DEFAULT_GROUP if text.count(",") == 0 else None


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


def _crossed_hit(case: Case, by_group: dict[str, list[RankState]]) -> Hit:
    sides = sorted(by_group.items(), key=lambda side: side[1][0].member)
    members = tuple(sorted(s.member for states in by_group.values() for s in states))
    words = "; ".join(_side(case, group, states) for group, states in sides)
    evidence: list[Evidence] = []
    for _, states in sides:
        evidence += evidence_of(case, states[0])[:1]
    first = sides[0][1][0].place
    return Hit(
        affected=members,
        names_culprit=False,
        evidence=tuple(evidence),
        collective=Collective(op=(first.op if first else None) or "a collective"),
        fields={**subject_fields(case, [], members), "sides": words},
    )


def _side(case: Case, group: str, states: list[RankState]) -> str:
    place = states[0].place
    frame = place.user if place is not None else None
    where = f" ({short(frame.file)}:{frame.line})" if frame is not None else ""
    ranks = case.ranks(s.member for s in states)
    who = ranks_in_words(ranks) if ranks else case.names(s.member for s in states)
    op = place.op if place is not None else "a collective"
    return f"{who} in {op} on {group}{where}"
