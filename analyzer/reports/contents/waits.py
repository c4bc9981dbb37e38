"""The wait graph as a report shows it: groups of ranks, the calls they are in, who is awaited.

Ranks that wait alike and are awaited alike are one node, so that a job of 10,000 ranks is a
handful of nodes. Subjects are the rows of ``Report.ranks``, by index: ranks with a number or not.
"""

import functools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives.waits import CallRef, Wait, distances, ends
from whyhang.analyzer.facts import fold, grouped, replace
from whyhang.analyzer.job.records import lock_holder
from whyhang.analyzer.queries.waits.moving import left_behind
from whyhang.analyzer.queries.waits.states import is_shared_lock
from whyhang.analyzer.rank_state.state import NOT_WAITING, Status
from whyhang.analyzer.report import RankRow, WaitEdge, WaitNode, Waits
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.kinds import AWAITED_FILE

MAX_NODES = 40
MAX_NAMES = 8
MAX_HOSTS = 4
UNSEEN = {"missing", "unreachable"}

Role: TypeAlias = Literal["root", "cycle", "missing", ""]


def waits(case: Case, rows: Sequence[RankRow], culprits: Iterable[int]) -> Waits:
    """Draw who waits for whom among the rows of a report."""
    row_of = {row.name if row.rank is None else row.rank: at for at, row in enumerate(rows)}

    def subject(member: int) -> int | None:
        one = case.member(member)
        return row_of.get(one.name if one.rank is None else one.rank)

    edges = [*_recorded(case, row_of), *_of_locks(case, subject), *_of_files(case, subject)]
    known = {edge.waiter for edge in edges}
    edges += [edge for edge in _of_stacks(case, rows, subject) if edge.waiter not in known]
    return _Drawing(edges, rows, frozenset(culprits)).drawn()


def _recorded(case: Case, row_of: Mapping[int | str, int]) -> Iterable[Wait]:
    awaited = functools.cache(  # one set for all who wait in one call
        lambda on: frozenset(row_of[rank] for rank in on if rank in row_of)
    )
    for wait in case.graph.calls.waits:
        if wait.waiter in row_of:
            certain = wait.certain and not wait.absent
            on = awaited(wait.on | wait.absent)
            yield replace(wait, waiter=row_of[wait.waiter], on=on, certain=certain)


def _of_locks(case: Case, subject: Callable[[int], int | None]) -> Iterable[Wait]:
    """Return the waits for locks: on a file, whose holder is known, and on one processes share."""
    wanting = {state.member for state in case.states if is_shared_lock(state.place)}
    others = {subject(state.member) for state in case.states if state.member not in wanting}
    on = frozenset(one for one in others if one is not None)
    for one in map(subject, sorted(wanting)) if on else ():
        if one is not None:
            yield _edge(one, "a lock that processes share", on, certain=False)
    for member in case.job.members:
        holder = lock_holder(case.job, member)
        one, other = subject(member.id), subject(holder.id) if holder else None
        if one is not None and other is not None:
            yield _edge(one, "a lock on a file", frozenset({other}), certain=True)


def _of_files(case: Case, subject: Callable[[int], int | None]) -> Iterable[Wait]:
    """Return the waits of all ranks but one for a file, which this one may have to make."""
    looks = [s for s in case.states if s.place is not None and s.place.op == AWAITED_FILE]
    others = [subject(state.member) for state in case.states if state not in looks]
    on = frozenset(one for one in others if one is not None)
    waiters = (subject(state.member) for state in looks)
    for one in waiters if len(others) == len(on) == 1 < len(looks) else ():
        if one is not None:
            yield _edge(one, "a file", on, certain=False)


def _of_stacks(
    case: Case, rows: Sequence[RankRow], subject: Callable[[int], int | None]
) -> Iterable[Wait]:
    """Return the waits that stacks show: for those that wait for nobody, else for each other."""
    graph = case.graph
    expected = {index for index, row in enumerate(rows) if row.state in UNSEEN}
    unseen = (s for s in case.states if s.status is Status.UNSEEN and s.by_log in NOT_WAITING)
    expected |= {one for s in unseen if (one := subject(s.member)) is not None}
    left = left_behind(case)
    behind = {subject(member) for member in left.behind} if left is not None else set()
    late = behind or {subject(member) for member in graph.lagging} | expected
    inside = [{subject(member) for member in each.members} for each in graph.operations]
    for operation, waiters in zip(graph.operations, inside, strict=True):
        # who is past its start has come there: those that still start wait for none of them
        came = operation.kind is WaitKind.INIT
        others = set() if came else set().union(*inside) - waiters
        on = frozenset(one for one in late - waiters or others if one is not None)
        for waiter in sorted(one for one in waiters - behind if one is not None):
            yield _edge(waiter, str(operation.says.call), on, certain=bool(late))


def _edge(waiter: int, call: str, on: frozenset[int], *, certain: bool) -> Wait:
    return Wait(waiter=waiter, on=on, call=CallRef(op=call, group=""), certain=certain)


class _Drawing:
    """The waits of subjects, and what each of them is in the graph."""

    def __init__(
        self, edges: Sequence[Wait], rows: Sequence[RankRow], culprits: frozenset[int]
    ) -> None:
        self.rows = rows
        self.culprits = culprits
        self.several_hosts = len({row.host for row in rows if row.host}) > 1
        roots, cycles = ends(edges)
        self.ends = {root.member for root in roots if root.direct}
        self.circle = {member for cycle in cycles for member in cycle.members}
        self.distance = distances(edges, self.ends | self.circle)
        self.of = grouped(edges, lambda edge: edge.waiter)
        self.awaited: dict[int, list[frozenset[int]]] = defaultdict(list)
        for on in dict.fromkeys(edge.on for edge in edges):
            for one in on:
                self.awaited[one].append(on)

    def role(self, one: int) -> Role:
        if one in self.circle:
            return "cycle"
        row = self.rows[one]
        if row.state == "missing":
            return "missing"
        # Of whom nothing is known may be there.
        may_be_there = row.state == "unreachable" and row.rank not in self.culprits
        return "root" if one in self.ends and not may_be_there else ""

    def folded(self) -> tuple[list[list[int]], bool]:
        """Return the subjects of each node, and whether those of one differ in their calls."""
        subjects = sorted({*self.of, *self.awaited})
        nodes = [*grouped(subjects, self._finely).values()]
        rough = len(nodes) > MAX_NODES
        if rough:
            nodes = [*grouped(subjects, self._coarsely).values()]
        if len(nodes) > MAX_NODES:
            nodes = [*grouped(subjects, self._by_role).values()]
        return nodes, rough

    def _by_role(self, one: int) -> tuple[Hashable, ...]:
        return self.role(one), self.rows[one].rank in self.culprits, self.rows[one].state

    def _finely(self, one: int) -> Hashable:
        own = tuple((str(e.call), e.on, e.certain) for e in self.of.get(one, ()))
        activity = "" if own else self.rows[one].activity
        return (*self._by_role(one), activity, own, tuple(self.awaited.get(one, ())))

    def _coarsely(self, one: int) -> Hashable:
        calls = {_without_ranks(str(edge.call)) for edge in self.of.get(one, ())}
        return (*self._by_role(one), self.distance.get(one), tuple(sorted(calls)))

    def drawn(self) -> Waits:
        """Describe the nodes, put a node for each call between them, and join them by edges."""
        folded, rough = self.folded()
        nodes = [self._node(members) for members in folded]
        number = {one: index for index, members in enumerate(folded) for one in members}
        targets = functools.cache(lambda on: frozenset(number[one] for one in on))
        calls: dict[tuple[str, frozenset[int]], int] = {}
        joined: dict[tuple[int, int], bool] = {}
        for one, index in number.items():
            for edge in self.of.get(one, ()) if rough or one == folded[index][0] else ():
                name = _without_ranks(str(edge.call)) if rough else str(edge.call)
                key = (name, targets(edge.on))
                if key not in calls:
                    calls[key] = len(nodes)
                    inside = sum(any(e.call == edge.call for e in own) for own in self.of.values())
                    everyone = inside == len(self.rows)
                    nobody = "all are in it" if everyone else "nobody is known to be missing"
                    says = name if edge.on else f"{name}: {nobody}"
                    nodes.append(WaitNode(kind="call", says=says))
                joined[index, calls[key]] = True
                for target in key[1]:
                    pair = (calls[key], target)
                    joined[pair] = edge.certain or joined.get(pair, False)
        edges = (WaitEdge(source=a, target=b, certain=sure) for (a, b), sure in joined.items())
        return Waits(nodes=tuple(nodes), edges=tuple(edges))

    def _node(self, members: Sequence[int]) -> WaitNode:
        rows = [self.rows[one] for one in members]
        same = len({row.activity for row in rows}) == 1
        hosts = dict.fromkeys(row.host for row in rows if row.host)
        return WaitNode(
            kind="ranks",
            says=rows[0].activity if same else f"{_without_ranks(rows[0].activity)}, …",
            ranks=fold(row.rank for row in rows if row.rank is not None),
            count=len(rows),
            names=tuple(row.name for row in rows if row.rank is None)[:MAX_NAMES],
            state=rows[0].state,
            role=self.role(members[0]),
            culprit=rows[0].rank in self.culprits,
            hosts=tuple(hosts) if self.several_hosts and len(hosts) <= MAX_HOSTS else (),
        )


def _without_ranks(call: str) -> str:
    """Cut the name of a call down to what it shares with those of groups of the same kind."""
    return call.partition(" (ranks ")[0].partition(" rank ")[0]
