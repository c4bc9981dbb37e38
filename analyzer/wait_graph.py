"""Who waits for whom: the one wait graph, whatever the waits were read from.

Ranks whose calls are recorded meet by process group and sequence number (``calls``, see
``whyhang.analyzer.collectives``); a stack or a traceback alone tells the operation and not its
number, so there ranks meet by operation (``operations``). Both kinds of evidence speak in both:
``rank_state.beside_stacks`` and ``records_beside`` carry them over, and ``calls_in_stacks`` makes
calls without group and number of operations.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from whyhang.analyzer.collectives import RecordedCalls
from whyhang.analyzer.collectives.waits import mutual
from whyhang.analyzer.facts import (
    Call,
    CallState,
    Frame,
    Group,
    GroupConnections,
    Record,
    Source,
    Track,
    Who,
    fold,
    grouped,
    replace,
)
from whyhang.analyzer.facts.calls import is_of_all
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.rank_state.over_time.job_progress import progress
from whyhang.analyzer.rank_state.state import NOT_WAITING, RankState, Status
from whyhang.analyzer.stacks import Phrase, Place, WaitKind
from whyhang.analyzer.stacks.named_group import is_of_all_ranks, named_group
from whyhang.analyzer.stacks.source_paths import own_path, two_calls
from whyhang.analyzer.stacks.threads import source_lines
from whyhang.analyzer.stacks.usercode import line_of

NOWHERE = Source(file="")


MOST_SITES = 3


class PendingOperation(Record):
    """An operation that ranks wait in. ``sites`` are their places in the user's code.

    ``group`` and ``seq`` are those of the call, where records show one of each for these ranks.
    """

    kind: WaitKind
    op: str
    says: Phrase
    members: tuple[int, ...]
    sites: tuple[str, ...]
    group: str | None = None
    seq: int | None = None

    @property
    def at(self) -> str:
        """Its places in brackets, the first of them where they are many, or nothing."""
        known = [site for site in self.sites if site]
        few = known if len(known) <= MOST_SITES else known[:1]
        return f" ({' and '.join(few)})" if few else ""


class WaitGraph(Record):
    """The waits of all ranks.

    ``caught`` are members that are known to wait only for each other, while all others wait for
    them; ``operations`` are theirs then, else those of all who wait.
    ``lagging`` are members that wait for no rank while others wait; ``not_waiting`` the same
    whether or not anyone is seen waiting. ``calls`` is what records show of the calls that ranks
    share. ``progress``: the job as a whole moves (None: not known). ``snapshots`` is how
    often the job was looked at.
    """

    waiting: tuple[int, ...]
    maybe: tuple[int, ...]
    lagging: tuple[int, ...]
    not_waiting: tuple[int, ...]
    operations: tuple[PendingOperation, ...]
    calls: RecordedCalls
    progress: bool | None
    snapshots: int
    caught: frozenset[int] = frozenset()


def wait_graph(job: Job, states: Sequence[RankState], calls: RecordedCalls) -> WaitGraph:
    """Read the wait graph off the states of all ranks."""
    waiting = tuple(s.member for s in states if s.status is Status.WAITING)
    maybe = tuple(s.member for s in states if s.status is Status.MAYBE)
    not_waiting = tuple(s.member for s in states if s.status in NOT_WAITING)
    caught = _caught(job, calls)
    own = (state for state in states if not caught or state.member in caught)
    return WaitGraph(
        waiting=waiting,
        maybe=maybe,
        lagging=not_waiting if waiting or maybe or job.missing else (),
        not_waiting=not_waiting,
        operations=tuple(
            _numbered(job, part, calls)
            for each in pending_operations([*own])
            for part in _calls_of(job, each)
        ),
        calls=calls,
        progress=progress(job, states),
        caught=caught,
        snapshots=max((len({d.look for d in m.dumps}) for m in job.members), default=0),
    )


def _caught(job: Job, calls: RecordedCalls) -> frozenset[int]:
    """Return the members that wait only for each other, as stacks and connections show.

    All others merely wait for them: what these do, and where, tells nothing of the cause. Of those
    in a circle it is who waits for one that waits for it, if there are such ranks: the barrier that
    some of them are in waits for many more than hold it up.
    """
    shown = {rank for rank, position in calls.positions.items() if position.group is None}
    cycles = [cycle for cycle in calls.cycles if cycle.certain and cycle.members <= shown]
    caught = {rank for cycle in cycles for rank in cycle.members}
    ranks = mutual(wait for wait in calls.waits if wait.waiter in caught) or caught
    return frozenset(m.id for m in job.members if m.rank in ranks)


def pending_operations(states: Sequence[RankState]) -> tuple[PendingOperation, ...]:
    """Group the waiting ranks by the call they wait in."""
    waiting = [
        (state.member, state.place)
        for state in states
        if state.status in {Status.WAITING, Status.MAYBE} and state.place is not None
    ]
    by_call = grouped(
        waiting, lambda one: (one[1].kind, one[1].op or one[1].says.call, _purpose(one[1]))
    )
    operations = [
        PendingOperation(
            kind=kind,
            op=op,
            says=own[0][1].says,
            members=tuple(member for member, _ in own),
            sites=tuple(sorted({line_of(p.user) if p.user is not None else "" for _, p in own})),
        )
        for (kind, op, _), own in by_call.items()
    ]
    return tuple(sorted(operations, key=lambda each: (-len(each.members), each.members)))


def _calls_of(job: Job, operation: PendingOperation) -> list[PendingOperation]:
    """Part an operation whose ranks have come to it by ways that make it several calls."""
    of_all = operation.kind in _MET_BY_ALL and is_of_all(operation.op)
    if not of_all or len(operation.members) < 2:
        return [operation]
    text = source_lines(job.excerpts)
    calls: list[tuple[list[Frame], list[int]]] = []  # the path of its first member, and all
    sites: dict[int, Frame] = {}
    for number in operation.members:
        path = own_path(job.members[number].dumps)
        for first, members in calls:
            parts = two_calls(first, path, text)
            if parts is None:
                members.append(number)
                break
            sites[members[0]], sites[number] = parts
        else:
            calls.append((path, [number]))
    if len(calls) == 1:
        return [operation]
    calls.sort(key=lambda call: (-len(call[1]), call[1]))
    inner = {members[0]: line_of(path[-1]) for path, members in calls}
    if len({*inner.values()}) < len(calls):  # called at other lines
        inner = {members[0]: line_of(sites[members[0]]) for _, members in calls}
    return [
        replace(operation, members=tuple(members), sites=(inner[members[0]],))
        for _, members in calls
    ]


_MET_BY_ALL = (WaitKind.COLLECTIVE, WaitKind.MPI)


def _numbered(job: Job, operation: PendingOperation, calls: RecordedCalls) -> PendingOperation:
    """Return an operation with group and number, where records show its ranks in one call."""
    ranks = {job.members[number].rank for number in operation.members}
    refs = {
        (position.ref.group, position.ref.seq)
        for rank, position in calls.positions.items()
        if rank in ranks and position.inside and position.group is not None
        if not position.call.p2p and position.call.op == operation.op
    }
    group, seq = refs.pop() if len(refs) == 1 else ("", None)
    return replace(operation, group=group or None, seq=seq)


def calls_in_stacks(
    job: Job, states: Sequence[RankState], tracks: Sequence[Track]
) -> Iterator[Track]:
    """Yield the collectives that stacks show, while others send and receive, as calls.

    Which group one is on, a stack does not tell, but the connections of its process may; else who
    waits in it waits for somebody who is not there. Where neither connections nor the peers of a
    send or receive are known, this adds nothing.
    """
    known = {track.who.rank for track in tracks}
    ranks = {s.member: job.members[s.member].rank for s in states}
    everyone = tuple(sorted(rank for rank in ranks.values() if rank is not None))
    operations = [o for o in pending_operations(states) if o.kind is WaitKind.COLLECTIVE]
    groups = _groups_in_use(job, [states[n] for each in operations for n in each.members], everyone)
    sites = {s.member: (s.place.user,) if s.place and s.place.user else () for s in states}
    paired = any(track.kind == "stack" for track in tracks)
    of_some = any(group.ranks != everyone for group in groups.values())
    for number, operation in enumerate(operations if paired or of_some else ()):
        for member in operation.members:
            rank = ranks[member]
            if rank is not None and rank not in known:
                yield Track(
                    who=Who(rank=rank),
                    group=groups.get(member)
                    or Group(name=str(number), ranks=everyone, inferred=True),
                    kind="stack",
                    source=next((d.source for d in job.members[member].dumps[-1:]), NOWHERE),
                    calls=(Call(op=operation.op, state=CallState.INSIDE, frames=sites[member]),),
                )


def _groups_in_use(
    job: Job, states: Sequence[RankState], everyone: tuple[int, ...]
) -> dict[int, Group]:
    """Return the group of the collective that each member stands in; none where one is not known.

    By its connections; of several groups in a call, as where one is asynchronous, its line may tell
    whether it is that of all ranks.
    """
    connected, text = _groups_in_call(job), source_lines(job.excerpts)
    groups: dict[int, Group] = {}
    for state in states:
        rank = job.members[state.member].rank
        own = {*(connected.get(rank, ()) if rank is not None else ())}
        name = named_group(state.place, text) if state.place is not None and len(own) > 1 else None
        if name is not None:
            whole = {frozenset(everyone)}
            own = own & whole if is_of_all_ranks(name) else own - whole
        if len(own) != 1:
            return {}
        ranks = own.pop()
        groups[state.member] = Group(name=f"ranks {fold(ranks)}", ranks=tuple(sorted(ranks)))
    return groups


def _groups_in_call(job: Job) -> dict[int, list[frozenset[int]]]:
    """Return for each rank with connections of gloo the ranks of each group in whose call it is.

    A connection of a group has one of its ranks at either end; a group of which another end is not
    known to be a rank's is left out.
    """
    by_rank: dict[int, list[GroupConnections]] = defaultdict(list)
    owners: dict[tuple[str, str], set[int]] = defaultdict(set)
    for fact in job.of(GroupConnections):
        member = job.member_of(fact.who)
        if member is not None and member.rank is not None:
            by_rank[member.rank].append(fact)
            for ends in fact.ends:
                owners[ends].add(member.rank)
    groups: dict[int, list[frozenset[int]]] = {}
    for rank, facts in by_rank.items():
        groups[rank] = []
        for fact in facts:
            others = [owners.get((there, here), set()) for here, there in fact.ends]
            if fact.in_call and all(len(some) == 1 for some in others):
                groups[rank].append(frozenset({rank}.union(*others)))
    return groups


def _purpose(place: Place) -> str:
    """Distinguish collectives of one operation that can never match, for their callers differ.

    DDP's gradient all_reduce in backward is not the all_reduce of a loss after it.
    """
    if place.kind is not WaitKind.COLLECTIVE:
        return ""
    inside = "backward" if place.context is WaitKind.BACKWARD else ""
    return f"{place.says.call} {inside}"
