"""Who waits for whom: the wait graph, its roots and its cycles.

Nodes are *members*, small integers: ranks, or processes whose rank is not known. An edge is a
``Wait``: one member is inside a call that cannot end before certain other members do something.
Where the waits come from (the collective ledger, stacks) makes no difference here.

Follow the waits from any member and one of two things is found at the end:

* a member that waits for no other: a **root**. What it does (or does not do) is the cause for
  everyone who leads there. A root that stands in a call itself (``Wait`` with nobody to wait
  for) waits for something below the ranks: the network, its device, a rank never seen.
* members that lead only to each other: a **cycle**. No member of it can ever go on.

In the language of graphs: the strongly connected components from which nothing else is
reached. Everything is linear in the number of waits plus the sizes of the distinct sets they
wait on; waits of one call share one frozenset, so a collective over 10,000 ranks stays small.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence

from whyhang.analyzer.facts import Frame, Group, Record, Source


class CallRef(Record):
    """Names a call that ranks meet in: "all_reduce #133 of default_pg", or a send to a peer.

    ``group`` is the name to show. ``peer`` is the other rank of a point-to-point call.
    """

    op: str | None
    group: str
    seq: int | None = None
    p2p: bool = False
    peer: int | None = None
    of: Group | None = None

    def __str__(self) -> str:
        op = self.op or "a collective"
        if self.p2p:
            way = {"send": "to", "recv": "from"}.get(op, "with")
            return f"{op} {way} rank {self.peer}" if self.peer is not None else op
        number = "" if self.seq is None else f" #{self.seq}"
        group = f"group {self.group}" if self.group.isdigit() else self.group
        return f"{op}{number} of {group}" if group else f"{op}{number}"


class Wait(Record):
    """One member waits, inside ``call``, until every member in ``on`` has done something.

    ``on`` empty: it stands in the call and no known member is to blame for that. ``absent``
    are ranks of the call of which there is no evidence: they may or may not hold it up.
    ``certain``: the others are known not to have joined; otherwise they have joined, and the
    call is queued behind another one of theirs. ``site`` is the waiter's own code line;
    ``kind`` says what the wait was read from ("ledger", "stack").
    """

    waiter: int
    on: frozenset[int]
    call: CallRef | None = None
    certain: bool = True
    absent: frozenset[int] = frozenset()
    site: Frame | None = None
    source: Source | None = None
    kind: str = "ledger"


class Root(Record):
    """A member at which waits end.

    ``direct`` wait for it themselves, ``blocks`` are all who do in the end. ``certain``: at
    least one wait for it is. ``inside`` is its own wait, if it stands in a call.
    """

    member: int
    direct: frozenset[int]
    blocks: frozenset[int]
    certain: bool
    inside: Wait | None = None


class Link(Record):
    """One step of a cycle: ``wait.waiter`` waits, in ``wait.call``, for ``next``."""

    wait: Wait
    next: int


class Cycle(Record):
    """Members that wait only for each other.

    ``chain`` is a shortest closed path through them, each link from the one before; ``members``
    are all that are caught in it, ``blocks`` all who wait for them from outside.
    """

    members: frozenset[int]
    chain: tuple[Link, ...]
    blocks: frozenset[int]


class _Graph:
    """Members and hubs. A hub stands for one distinct set of members that is waited on."""

    def __init__(self, waits: Sequence[Wait]) -> None:
        self.waits = waits
        self.out: dict[int, list[int]] = defaultdict(list)  # node -> nodes; hubs are negative
        self.into: dict[int, list[int]] = defaultdict(list)
        self.waits_of: dict[int, list[Wait]] = defaultdict(list)
        self.certain: set[int] = set()  # members for whom a certain wait exists
        hubs: dict[frozenset[int], int] = {}
        for wait in waits:
            self.waits_of[wait.waiter].append(wait)
            self.out.setdefault(wait.waiter, [])
            if not wait.on:
                continue
            hub = hubs.get(wait.on)
            if hub is None:
                hub = hubs[wait.on] = -1 - len(hubs)
                for member in sorted(wait.on):
                    self._join(hub, member)
                    self.out.setdefault(member, [])
            self._join(wait.waiter, hub)
        certain_sets = {wait.on for wait in waits if wait.certain}
        self.certain.update(*certain_sets)

    def _join(self, node: int, to: int) -> None:
        self.out[node].append(to)
        self.into[to].append(node)

    def before(self, targets: Iterable[int]) -> frozenset[int]:
        """Find all members from which some target is reached, without the targets."""
        targets = set(targets)
        seen = set(targets)
        queue = list(targets)
        while queue:
            for node in self.into.get(queue.pop(), ()):
                if node not in seen:
                    seen.add(node)
                    queue.append(node)
        return frozenset(node for node in seen if node >= 0 and node not in targets)

    def ends(self) -> list[frozenset[int]]:
        """Give the components from which nothing else is reached, members only."""
        found = []
        component_of: dict[int, int] = {}
        components = _components(self.out, self.into)
        for number, component in enumerate(components):
            for node in component:
                component_of[node] = number
        for number, component in enumerate(components):
            if all(component_of[to] == number for node in component for to in self.out[node]):
                members = frozenset(node for node in component if node >= 0)
                if members:
                    found.append(members)
        return sorted(found, key=min)


def roots(waits: Sequence[Wait], members: Iterable[int] | None = None) -> tuple[Root, ...]:
    """Find the members at which waits end: waited for, or standing in a call, and waiting for none.

    ``members`` limits the answer to those (ranks there is evidence of); None means no limit.
    A member that waits for itself alone is a cycle, not a root.
    """
    graph = _Graph(waits)
    allowed = None if members is None else set(members)
    found = []
    shared: dict[tuple[int, ...], frozenset[int]] = {}
    for end in graph.ends():
        member = min(end)
        if len(end) > 1 or (allowed is not None and member not in allowed):
            continue
        hubs = tuple(sorted(set(graph.into.get(member, ()))))
        if any(member in graph.into[hub] for hub in hubs):
            continue
        if hubs not in shared:
            shared[hubs] = graph.before([member]) if hubs else frozenset()
        inside = next(iter(graph.waits_of.get(member, ())), None)
        direct = frozenset(waiter for hub in hubs for waiter in graph.into[hub])
        if not direct and inside is None:
            continue
        found.append(
            Root(
                member=member,
                direct=direct,
                blocks=shared[hubs],
                certain=member in graph.certain,
                inside=inside,
            )
        )
    return tuple(found)


def cycles(waits: Sequence[Wait]) -> tuple[Cycle, ...]:
    """Find the members that wait only for each other, each with one shortest chain."""
    graph = _Graph(waits)
    found = []
    for end in graph.ends():
        first = min(end)
        selfish = any(first in wait.on for wait in graph.waits_of.get(first, ()))
        if len(end) > 1 or selfish:
            chain = _shortest_chain(end, graph.waits_of)
            found.append(Cycle(members=end, chain=chain, blocks=graph.before(end)))
    return tuple(found)


def _shortest_chain(
    inside: frozenset[int], waits_of: Mapping[int, Sequence[Wait]]
) -> tuple[Link, ...]:
    """Walk from the lowest member back to it, certain waits before others."""
    start = min(inside)
    came: dict[int, Link] = {}
    queue = deque([start])
    while queue:
        member = queue.popleft()
        for wait in sorted(waits_of.get(member, ()), key=lambda wait: not wait.certain):
            for following in sorted(wait.on & inside):
                if following in came:
                    continue
                came[following] = Link(wait=wait, next=following)
                if following == start:
                    return _unroll(start, came)
                queue.append(following)
    return ()


def _unroll(start: int, came: Mapping[int, Link]) -> tuple[Link, ...]:
    chain = [came[start]]
    while chain[-1].wait.waiter != start:
        chain.append(came[chain[-1].wait.waiter])
    return tuple(reversed(chain))


def _components(
    out: Mapping[int, Sequence[int]], into: Mapping[int, Sequence[int]]
) -> list[list[int]]:
    """Find the strongly connected components (Kosaraju), without recursion."""
    found: list[list[int]] = []
    seen: set[int] = set()
    for begin in reversed(_finish_order(out)):
        if begin in seen:
            continue
        seen.add(begin)
        component = [begin]
        for node in component:  # grows while it is walked
            fresh = [other for other in dict.fromkeys(into.get(node, ())) if other not in seen]
            seen.update(fresh)
            component += fresh
        found.append(component)
    return found


def _finish_order(out: Mapping[int, Sequence[int]]) -> list[int]:
    """List the nodes as a depth-first walk leaves them."""
    order: list[int] = []
    seen: set[int] = set()
    for begin in out:
        if begin in seen:
            continue
        seen.add(begin)
        path = [(begin, iter(out[begin]))]
        while path:
            node, targets = path[-1]
            fresh = next((to for to in targets if to not in seen), None)
            if fresh is None:
                path.pop()
                order.append(node)
            else:
                seen.add(fresh)
                path.append((fresh, iter(out[fresh])))
    return order
