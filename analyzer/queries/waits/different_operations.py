"""All ranks wait for others, and not in the same operation: the fewest are where to look first."""

from collections.abc import Iterator, Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import Verdict
from whyhang.analyzer.facts import CallArgument, RootArgument
from whyhang.analyzer.facts.calls import PEER_TO_PEER, ROOTED, is_of_all
from whyhang.analyzer.findings.signature import CONTRADICTED, INCOMPLETE, INDIRECT, Hit
from whyhang.analyzer.queries.hits import hit_about, of_nobody
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.queries.waits.left_loops import came_past_in_words
from whyhang.analyzer.queries.waits.named_groups import (
    group_is_open,
    groups_crossed,
    is_of_world,
    names_its_own_group,
)
from whyhang.analyzer.queries.waits.recorded import PLACES
from whyhang.analyzer.queries.waits.states import OF_A_HOLDER, all_recorded, all_seen, count
from whyhang.analyzer.rank_state.over_time.job_progress import counts_more, step_counters
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.source_blocks import (
    FINALIZER,
    ends,
    heads,
    may_be_in_branch,
    rank_branch,
    unasked,
)
from whyhang.analyzer.stacks.source_paths import comes_first, fork
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wait_graph import PendingOperation
from whyhang.analyzer.wording.describe import collective_of, evidence_of, path_of
from whyhang.analyzer.wording.ways_past import (
    branch_in_words,
    may_be_left_out,
    passed_in_words,
    ways_round_again,
)

_OF_MPI = {"bcast", "gatherv", "scatterv"}
ONE_SIDED = ROOTED | _OF_MPI | {"broadcast_object_list", "scatter_object_list", "gather_object"}
"""Collectives that a rank may be through with while others still wait in them."""
LAST_CALL = "finalize"  # of MPI


def needs_everybody(op: str) -> bool:
    """Return whether nobody comes through an operation before all have come to it."""
    return is_of_all(op) and op not in ONE_SIDED


@query
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
    stays, gone = _gone_on(case, meetings)
    yield _different_hit(case, [m for m in meetings if m is not gone], stays, gone)


def _gone_on(
    case: Case, meetings: list[PendingOperation]
) -> tuple[PendingOperation | None, PendingOperation | None]:
    """Return the collective with a root of three calls, and those who have come past it.

    Who counts a step more than all others has come past their calls. Of these, only one with a root
    can be left before everybody has come.
    """
    rooted = [meeting for meeting in meetings if meeting.op in ONE_SIDED]
    ahead = [m for m in meetings if _is_ahead(case, m, [its for its in meetings if its is not m])]
    if len(meetings) != 3 or len(rooted) != 1 or len(ahead) != 1 or ahead == rooted:
        return None, None
    return rooted[0], ahead[0]


def _is_ahead(case: Case, meeting: PendingOperation, others: Sequence[PendingOperation]) -> bool:
    """Return whether all in an operation count a step more than all in the others."""
    counted = step_counters(case.job)
    return all(
        counts_more(counted.get(n, {}), counted.get(other, {}))
        for n in meeting.members
        for its in others
        for other in its.members
    )


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
    paths = {n: path_of(case, case.states[n]) for side in sides for n in side}
    inside = [side for side in sides if all(rank_branch(paths[n], case.text) for n in side)]
    others = [n for side in sides if side not in inside for n in side]
    alone = len(inside) == 1 and not any(may_be_in_branch(paths[n], case.text) for n in others)
    return inside[0] if alone else None


def _different_hit(
    case: Case,
    meetings: list[PendingOperation],
    stays: PendingOperation | None,
    gone: PendingOperation | None,
) -> Hit:
    """Return the hit; those who have ``gone`` on count with those of whom one ``stays``."""
    past = gone.members if gone is not None else ()
    counts = [count(case, (*m.members, *(past if m is stays else ()))) for m in meetings]
    fewest = meetings[counts.index(min(counts))]
    # A send or receive is one side of a pair: which side is wrong no numbers tell.
    paired = any(_is_for_messages(m) for m in meetings)
    tie = counts.count(min(counts)) > 1 or len(meetings) > 2 or paired
    if tie and len(meetings) == 2:
        alone = side_in_branch(case, [meeting.members for meeting in meetings])
        fewest = next((m for m in meetings if m.members == alone), fewest)
        tie = alone is None
    if tie and len(meetings) == 2 and (again := _come_again(case, meetings)) is not None:
        fewest, tie = again, False
    if len(meetings) == 2 and (gone_past := _come_past(case, meetings)) is not None:
        # Where most have left out a call that few have made, nobody is the odd one.
        tie = gone_past is not fewest and counts[0] != counts[1]
        fewest = gone_past
    elif len({(m.op, str(m.says.call)) for m in meetings}) < len(meetings):
        # Calls of one name may be of two groups, each with others for whom it waits.
        tie = tie or not all(is_of_world(case, case.states[m.members[0]]) for m in meetings)
    passed_by = _passed_by(case, meetings) if len(meetings) > 2 else None
    if passed_by is not None:
        fewest, tie = passed_by, False
    if tie and len(meetings) == 2 and (ending := [m for m in meetings if m.op == LAST_CALL]):
        fewest, tie = ending[0], False  # it makes no call any more that could meet the other
    # Of several outside a broadcast or reduce some may have done their part and gone on.
    if min(counts) > 1 and not _never_came(case, fewest):
        tie = tie or any(m.op in ONE_SIDED for m in meetings if m is not fewest)
    others = [meeting for meeting in meetings if meeting is not fewest]
    tie = tie or any(_roots_differ(case, meeting) for meeting in others)
    # only one with a root can be left before everybody has come
    tie = tie or (all(m.op in ONE_SIDED for m in others) and _is_ahead(case, fewest, others))
    tie = tie or any(m.op in OF_A_HOLDER for m in meetings)
    finalizers = _in_finalizers(case, meetings)
    tie = tie or finalizers != ""
    tie = tie or _others_may_have_left(case, fewest, others)
    tie = tie or any(any(groups_crossed(case, m.kind)) for m in meetings)
    tie = tie or any(group_is_open(case, case.states[n]) for m in meetings for n in m.members)
    shown = [case.states[m.members[0]] for m in (fewest, *others)]
    tie = tie or names_its_own_group(case, shown[0], shown[1:])
    waiting = tuple(sorted((*past, *(n for meeting in others for n in meeting.members))))
    same = len({m.op for m in meetings}) < len(meetings)
    one_name = len({str(m.says.call) for m in meetings}) == 1
    sides = " and ".join(
        f"{case.names(m.members)} in {m.says.call if same else m.op}" + m.at
        for m in (fewest, *others)
    )
    # More than two operations, or point-to-point among them, is what pipelines and
    # nested groups look like when the one late rank is not among those seen.
    plain = len(meetings) == 2 and all(m.kind is not WaitKind.P2P for m in meetings)
    plain = plain or passed_by is not None
    hit = hit_about(
        case,
        fewest.members,
        waiting,
        shown=fewest.members[:1],
        evidence=[piece for state in shown for piece in evidence_of(case, state)],
        fields={
            "sides": sides,
            "differ": "stand in different calls" if one_name else "call different collectives",
            "compare": PLACES,
            "messages": _messages_in_words(case, meetings),
            "past": finalizers
            or (_how_they_part(case, meetings, fewest, tie=tie) if plain else ""),
        },
        strength=(INDIRECT if not tie else INCOMPLETE) if plain else CONTRADICTED,
        names_culprit=not tie,
        collective=collective_of(fewest, ", ".join(m.op for m in others)),
        located=not tie,
        # who is at the end of its program is in no other call: it does not come to this one
        category="mpi-missing-rank" if fewest.op == LAST_CALL and not tie else "",
    )
    return of_nobody(hit) if tie else hit


def _how_they_part(
    case: Case, meetings: Sequence[PendingOperation], fewest: PendingOperation, *, tie: bool
) -> str:
    """Say in which branch the fewest stand, or what led them, or a side, past the others."""
    if len(meetings) != 2:
        return ""
    if tie:
        return came_past_in_words(case, meetings[0].members, meetings[1].members)
    others = tuple(n for m in meetings if m is not fewest for n in m.members)
    branch = branch_in_words(case, fewest.members, others)
    return f"; {branch}" if branch else passed_in_words(case, fewest.members, others)


def _is_for_messages(meeting: PendingOperation) -> bool:
    """Return whether ranks wait for messages: of MPI also for requests, and those of neighbors."""
    of_mpi = meeting.kind is WaitKind.MPI and not is_of_all(meeting.op)
    return of_mpi or meeting.op.startswith(PEER_TO_PEER)


def _in_finalizers(case: Case, meetings: Sequence[PendingOperation]) -> str:
    """Say who stands in a finalizer: it runs when its object goes, on each rank at another line.

    Whether its call is one too many here or has been left out elsewhere, nothing tells.
    """
    inside = (
        (meeting, called[0])
        for meeting in meetings
        if (called := unasked(path_of(case, case.states[meeting.members[0]]), case.text))
        and called[1] == FINALIZER
    )
    sides = [f"{case.names(m.members)} in {in_words(frame)}" for m, frame in inside]
    why = "a finalizer, which runs when the last reference to its object goes"
    return f"; {' and '.join(sides)}: {why}" if sides else ""


def _messages_in_words(case: Case, meetings: Sequence[PendingOperation]) -> str:
    """Say who waits for messages, where others are in a collective."""
    waits = [m for m in meetings if _is_for_messages(m)]
    members = [number for meeting in waits for number in meeting.members]
    if not waits or len(waits) == len(meetings):
        return ""
    who, verb = case.names(members), "wait" if len(members) > 1 else "waits"
    asked = {number: _partner(case, number) for number in members}
    for number, partner in asked.items():
        other = None if partner is None else case.job.by_rank.get(partner)
        if other in members and "send" not in waits[0].op:
            itself = case.names((number,)).capitalize()
            back = asked[other] if other is not None else None
            whom = "from anyone" if back is None else f"from rank {back}"
            return f" {itself} waits for a message from rank {partner}, which waits for one {whom}."
    partners = set(asked.values())
    partner = partners.pop() if len(partners) == 1 else None
    if partner is not None and len(waits) == 1:
        way = "to" if "send" in waits[0].op else "from"
        does = "has taken none" if way == "to" else "has sent none"
        does += " that fits, or is not the one to ask"
        return f" {who.capitalize()} {verb} for a message {way} rank {partner}, which {does}."
    return f" {who.capitalize()} {verb} for a message that does not come, or is not taken."


def _partner(case: Case, number: int) -> int | None:
    """Return the rank that the send or receive in which a member stands was given."""
    ranks = {
        argument.value
        for argument in case.job.of(CallArgument)
        if argument.stands
        and argument.name in {"source", "src", "dest", "dst"}
        and argument.value.isdecimal()
        and (member := case.job.member_of(argument.who)) is not None
        and member.id == number
    }
    return int(ranks.pop()) if len(ranks) == 1 else None


def _come_again(case: Case, meetings: Sequence[PendingOperation]) -> PendingOperation | None:
    """Return the one of two calls to which ranks have come a second time, past the other call."""
    paths = [path_of(case, case.states[meeting.members[0]]) for meeting in meetings]
    if not all(needs_everybody(meeting.op) for meeting in meetings):
        return None
    for own, other in ((0, 1), (1, 0)):
        if ways_round_again(paths[own], paths[other], case.text):
            return meetings[own]
    return None


def _come_past(case: Case, meetings: Sequence[PendingOperation]) -> PendingOperation | None:
    """Return the one of two calls of an operation whose ranks may have gone past the other one."""
    if len({meeting.op for meeting in meetings}) > 1:
        return None
    first, second = (meeting.members[0] for meeting in meetings)
    ways = (may_be_left_out(case, first, second), may_be_left_out(case, second, first))
    return meetings[1 - ways.index(True)] if ways.count(True) == 1 else None


def _passed_by(case: Case, meetings: Sequence[PendingOperation]) -> PendingOperation | None:
    """Return the operation of one rank that all others have passed by, a turn of a loop further.

    The rank has come through a collective of all in which some of them stand again, as may those
    that stand above it in the loop.
    """
    text = case.text
    paths = {m: [path_of(case, case.states[n]) for n in m.members] for m in meetings}
    of_all = [m for m in meetings if needs_everybody(m.op)]
    for one in of_all:
        path, others = paths[one][0], [m for m in meetings if m is not one]
        forks = [fork(its, path) for m in others for its in paths[m]]
        above = all(f is not None and (f[0].line or 0) < (f[1].line or 0) for f in forks)
        looped = all(f and any(ends(h, text) is not None for h in heads(f[1], text)) for f in forks)
        met = [m for m in others if m in of_all and comes_first(paths[m][0], path, text)]
        if len(one.members) == 1 and above and looped and met:
            return one
    return None


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
    path = path_of(case, case.states[meeting.members[0]])
    paths = [path_of(case, case.states[n]) for other in others for n in other.members]
    return all(comes_first(path, its, case.text) for its in paths)


def _roots_differ(case: Case, meeting: PendingOperation) -> bool:
    """Return whether ranks in one operation name different roots: they hold each other up."""
    ranks = {*case.ranks(meeting.members)}
    return len({call.root for call in case.job.of(RootArgument) if call.who.rank in ranks}) > 1


def _never_came(case: Case, meeting: PendingOperation) -> bool:
    """Return whether all in an operation are recorded not to have made the others' call."""
    late = case.graph.calls.of(Verdict.NEVER_JOINED)
    return {rank for f in late for rank in f.culprits}.issuperset(case.ranks(meeting.members))
