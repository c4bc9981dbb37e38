"""Waits of members for members, and where they end: at roots, or in cycles.

The wait graph of a job (``whyhang.analyzer.wait_graph``) and that of its recorded calls
(``call_graph.py``) rest on these. Nodes are *members*, small integers: ranks, or processes whose
rank is not known. An edge is a ``Wait``: one member is inside a call that cannot end before
certain other members do something. Where the waits come from (recorded calls, stacks) makes no
difference here.

Follow the waits from any member and one of two things is at the end:

* a member that waits for no other: a **root**. What it does (or does not do) is the cause for
  everyone who leads there. A root that is in a call itself (``Wait`` with nobody to wait
  for) waits for something below the ranks: the network, its device, a rank never seen.
* members that lead only to each other: a **cycle**. No member of it can ever go on.

In the language of graphs: the strongly connected components from which nothing else is
reached. Everything is linear in the number of waits plus the sizes of the distinct sets they
wait on; waits of one call share one frozenset, so a collective over 10,000 ranks stays small.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.facts import Frame, Group, Record


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

    ``on`` empty: it is in the call and no known member is to blame for that. ``absent``
    are ranks of the call of which there is no evidence: they may or may not hold it up.
    ``certain``: the others are known not to have joined; otherwise they have joined, and the
    call is queued behind another one of theirs. ``site`` is the waiter's own code line.
    """

    waiter: int
    on: frozenset[int]
    call: CallRef | None = None
    certain: bool = True
    absent: frozenset[int] = frozenset()
    site: Frame | None = None


class Root(Record):
    """A member at which waits end.

    ``direct`` wait for it themselves, ``blocks`` are all who do in the end.
    """

    member: int
    direct: frozenset[int]
    blocks: frozenset[int]


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

    @property
    def certain(self) -> bool:
        """Whether it holds collectives, and of each it is known which ranks are in its group."""
        calls = [call for link in self.chain if (call := link.wait.call) is not None]
        groups = [call.group for call in calls if not call.p2p]
        return len(calls) == len(self.chain) and bool(groups) and all(groups)


class _Graph:
    """Members and hubs: a hub (below 0) stands for one set of members that is waited on."""

    def __init__(self, waits: Sequence[Wait]) -> None:
        self.out: dict[int, list[int]] = defaultdict(list)
        self.into: dict[int, list[int]] = defaultdict(list)
        self.waits_of: dict[int, list[Wait]] = defaultdict(list)
        hubs: dict[frozenset[int], int] = {}
        for wait in waits:
            self.waits_of[wait.waiter].append(wait)
            self.out.setdefault(wait.waiter, [])
            if wait.on and wait.on not in hubs:
                hub = hubs[wait.on] = -1 - len(hubs)
                for member in sorted(wait.on):
                    self._join(hub, member)
                    self.out.setdefault(member, [])
            if wait.on:
                self._join(wait.waiter, hubs[wait.on])

    def _join(self, node: int, to: int) -> None:
        self.out[node].append(to)
        self.into[to].append(node)

    def before(self, targets: Collection[int]) -> frozenset[int]:
        """Return all members from which some target is reached, without the targets."""
        return frozenset(self.distances(targets)).difference(targets)

    def distances(self, targets: Iterable[int]) -> dict[int, int]:
        """Return over how many waits each member leads to the nearest target."""
        waits = dict.fromkeys(targets, 0)
        queue = deque(waits)
        while queue:
            node = queue.popleft()
            for before in self.into.get(node, ()):
                if before not in waits:
                    waits[before] = waits[node] + (before >= 0)
                    queue.append(before)
        return {node: count for node, count in waits.items() if node >= 0}

    def ends(self) -> list[frozenset[int]]:
        """Return the components from which nothing else is reached, members only."""
        components = [*_components(self.out)]
        of = {node: number for number, nodes in enumerate(components) for node in nodes}
        ends = (
            frozenset(node for node in nodes if node >= 0)
            for number, nodes in enumerate(components)
            if all(of[to] == number for node in nodes for to in self.out[node])
        )
        return sorted((members for members in ends if members), key=min)


def ends(
    waits: Sequence[Wait], members: Collection[int] | None = None
) -> tuple[tuple[Root, ...], tuple[Cycle, ...]]:
    """Return the members at which waits end, and those that wait only for each other.

    ``members`` limits the roots to those (ranks there is evidence of); None means no limit.
    A member that waits for itself alone is a cycle, not a root.
    """
    graph = _Graph(waits)
    roots, cycles = [], []
    shared: dict[tuple[int, ...], frozenset[int]] = {}
    for end in graph.ends():
        member = min(end)
        own = graph.waits_of.get(member, ())
        if len(end) > 1 or any(member in wait.on for wait in own):
            chain = _shortest_chain(end, graph.waits_of)
            cycles.append(Cycle(members=end, chain=chain, blocks=graph.before(end)))
        elif members is None or member in members:
            hubs = tuple(sorted(set(graph.into.get(member, ()))))
            if hubs not in shared:
                shared[hubs] = graph.before([member])
            if hubs or own:
                roots.append(
                    Root(
                        member=member,
                        direct=frozenset(waiter for hub in hubs for waiter in graph.into[hub]),
                        blocks=shared[hubs],
                    )
                )
    return tuple(roots), tuple(cycles)


def mutual(waits: Iterable[Wait]) -> frozenset[int]:
    """Return the members that wait for one that waits for them."""
    waiters: dict[frozenset[int], set[int]] = defaultdict(set)
    for wait in waits:
        waiters[wait.on].add(wait.waiter)
    pairs = ((waiters[on] & other, waiters[other] & on) for on in waiters for other in waiters)
    return frozenset().union(*(ones | others for ones, others in pairs if ones and others))


def followed(first: int, partners: Mapping[int, int]) -> list[int]:
    """Return a member, its partner, the partner of that one and so on, each once."""
    path = [first]
    while (after := partners.get(path[-1])) is not None and after not in path:
        path.append(after)
    return path


def distances(waits: Sequence[Wait], targets: Iterable[int]) -> dict[int, int]:
    """Return over how many waits each member leads to the nearest target."""
    return _Graph(waits).distances(targets)


def _shortest_chain(
    inside: frozenset[int], waits_of: Mapping[int, Sequence[Wait]]
) -> tuple[Link, ...]:
    """Walk from the lowest member back to it, certain waits before others."""
    start = min(inside)
    came: dict[int, Link] = {}
    queue = deque([start])
    while queue and start not in came:
        waits = waits_of.get(queue.popleft(), ())
        for wait in sorted(waits, key=lambda wait: not wait.certain):
            for following in sorted(wait.on & inside - came.keys()):
                came[following] = Link(wait=wait, next=following)
                queue.append(following)
    chain = [came[start]] if start in came else []
    while chain and chain[-1].wait.waiter != start:
        chain.append(came[chain[-1].wait.waiter])
    return tuple(reversed(chain))


def _components(out: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """Yield the strongly connected components (Tarjan), without recursion."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}  # of those that are in no component yet, who is reached from them
    rest: list[int] = []
    for begin in out:
        walk = [(begin, iter(out[begin]))] if begin not in number else []
        while walk:
            node, targets = walk[-1]
            if node not in number:
                number[node] = low[node] = len(number)
                rest.append(node)
            fresh = next((to for to in targets if to not in number), None)
            if fresh is not None:
                walk.append((fresh, iter(out[fresh])))
                continue
            walk.pop()
            low[node] = min(low[to] for to in (node, *out[node]) if to in low)
            if low[node] == number[node]:
                at = next(n for n in range(len(rest) - 1, -1, -1) if rest[n] == node)
                component, rest[at:] = rest[at:], []
                for each in component:
                    del low[each]
                yield component
