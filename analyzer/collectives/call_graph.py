"""All pending calls of a job, who waits in them for whom, and where the waits end."""

from collections.abc import Collection, Iterable

from whyhang.analyzer.collectives.groups import JobCalls
from whyhang.analyzer.collectives.pending import IssuedCall, Pending
from whyhang.analyzer.collectives.shared_calls import (
    Key,
    PendingP2P,
    SharedCall,
    in_stacks,
    pending_collectives,
    pending_p2p,
    with_peers,
)
from whyhang.analyzer.collectives.waits import Cycle, Root, Wait, ends
from whyhang.analyzer.facts import Record


class CallGraph(Record):
    """The pending calls of all ranks, and the reading of the wait graph.

    ``waits`` are who waits in them for whom, ``roots`` and ``cycles`` where these end.
    """

    job: JobCalls
    pending: dict[int, tuple[IssuedCall, ...]]
    positions: dict[int, IssuedCall]
    collectives: dict[Key, SharedCall]
    p2p: tuple[PendingP2P, ...]
    waits: tuple[Wait, ...]
    roots: tuple[Root, ...]
    cycles: tuple[Cycle, ...]

    def collective_of(self, rank: int) -> SharedCall | None:
        """Return the collective that a rank is in."""
        for pending in self.pending.get(rank, ()):
            if pending.group is not None and not pending.call.p2p:
                key = (pending.group.index, pending.call.seq or 0)
                if key in self.collectives:
                    return self.collectives[key]
        return None

    def quotes(self, ranks: Iterable[int]) -> tuple[IssuedCall, ...]:
        """Return where some ranks stand, as far as their records were read from somewhere."""
        positions = (self.positions[rank] for rank in ranks if rank in self.positions)
        return tuple(position for position in positions if position.source is not None)

    def reaching(self, ranks: Collection[int], culprits: Collection[int]) -> tuple[int, ...]:
        """Return ``ranks`` and all who wait for them in the end, without the culprits."""
        reaching = set(ranks)
        for root in self.roots:
            if root.member in ranks or root.member in culprits:
                reaching |= root.blocks
        for cycle in self.cycles:
            if cycle.members.intersection(ranks):
                reaching |= cycle.members | cycle.blocks
        return tuple(sorted(reaching.difference(culprits)))


def call_graph(job: JobCalls, pending: Pending, positions: dict[int, IssuedCall]) -> CallGraph:
    """Read off who waits for whom."""
    known = job.present | set(job.stacks)
    collectives = pending_collectives(pending)
    p2p = pending_p2p(job, pending, known)
    shared = (*collectives, *with_peers(p2p), *in_stacks(job, pending))
    waits = tuple(wait for call in shared for wait in call.waits())
    roots, cycles = ends(waits, known)
    return CallGraph(
        job=job,
        pending=dict(pending),
        positions=positions,
        collectives={collective.key: collective for collective in collectives},
        p2p=p2p,
        waits=waits,
        roots=roots,
        cycles=cycles,
    )


def merged(ranks: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Join several lists of ranks."""
    return tuple(sorted({rank for some in ranks for rank in some}))
