"""Every rank waits for others, but in different operations: they cannot meet."""

import re
from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.findings.signature import CONTRADICTED, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.queries.states import all_recorded, all_seen, count
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.blocks import may_be_in_branch, rank_branch
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.branches import path_of
from whyhang.analyzer.wording.calls import collective_of
from whyhang.analyzer.wording.describe import location_of
from whyhang.analyzer.wording.evidence import evidence_of
from whyhang.analyzer.wording.title_fields import subject_fields

ONE_SIDED = frozenset(
    {"broadcast", "reduce", "scatter", "gather"}
    | {"broadcast_object_list", "scatter_object_list", "gather_object"}
)
"""Collectives that a rank may be through with while others still wait in them."""
PEER_TO_PEER = ("send", "isend", "recv", "irecv", "probe", "mprobe")
LAST_CALL = "finalize"  # of MPI
_OF_ANYONE = re.compile(r"\b(?:recv|probe)\(\)")


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
    yield _hit(case, meetings)


def _is_nameless(case: Case, meeting: PendingOperation) -> bool:
    """Return whether only a number is known of a collective: it may be that of the others."""
    places = [case.states[number].place for number in meeting.members]
    return any(p is not None and p.op is None and p.frame is None for p in places)


def _receives_from_anyone(case: Case, meeting: PendingOperation) -> bool:
    """Return whether ranks wait to receive from whoever sends: any of the others may owe it."""
    text = source_lines(case.job.excerpts)
    places = [case.states[number].place for number in meeting.members]
    lines = [text(p.user) or "" for p in places if p is not None and p.user is not None]
    receives = meeting.op.startswith(("recv", "probe", "mprobe"))
    return receives and any("ANY_SOURCE" in line or _OF_ANYONE.search(line) for line in lines)


def side_in_branch(case: Case, sides: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Return the one side all of whose members stand in a branch on the number of their rank.

    A call that only some ranks come to is the one too many; where another side may be in such a
    branch as well, none is returned, nor where all send or receive: each has a part of its own.
    """
    if all(operation.op.startswith(PEER_TO_PEER) for operation in case.graph.operations):
        return None
    text = source_lines(case.job.excerpts)
    paths = {n: path_of(case, case.states[n]) for side in sides for n in side}
    inside = [side for side in sides if all(rank_branch(paths[n], text) for n in side)]
    others = [n for side in sides if side not in inside for n in side]
    alone = len(inside) == 1 and not any(may_be_in_branch(paths[n], text) for n in others)
    return inside[0] if alone else None


def _hit(case: Case, meetings: list[PendingOperation]) -> Hit:
    counts = [count(case, meeting.members) for meeting in meetings]
    fewest = meetings[counts.index(min(counts))]
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2
    if tie and len(meetings) == 2:
        alone = side_in_branch(case, [meeting.members for meeting in meetings])
        fewest = next((m for m in meetings if m.members == alone), fewest)
        tie = alone is None
    if tie and len(meetings) == 2 and (ending := [m for m in meetings if m.op == LAST_CALL]):
        fewest, tie = ending[0], False  # it makes no call any more that could meet the other
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    tie = tie or (min(counts) > 1 and any(m.op in ONE_SIDED for m in meetings if m is not fewest))
    tie = tie or _receives_from_anyone(case, fewest)
    others = [meeting for meeting in meetings if meeting is not fewest]
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
