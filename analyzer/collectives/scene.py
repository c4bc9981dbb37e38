"""All that findings are made of, and what they all need of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.collectives import words
from whyhang.analyzer.collectives.graph import CallRef, Cycle, Root, Wait
from whyhang.analyzer.collectives.groups import GroupCalls, JobCalls
from whyhang.analyzer.collectives.heads import Head, Heads, refer, site_of
from whyhang.analyzer.collectives.mates import Apart
from whyhang.analyzer.collectives.meet import Meeting
from whyhang.analyzer.collectives.p2p import Pairing
from whyhang.analyzer.collectives.records import Quote
from whyhang.analyzer.facts import Frame, Record, Source


class Scene(Record):
    """The job, where everyone stands in it, and the wait graph."""

    job: JobCalls
    heads: Heads
    meetings: tuple[Meeting, ...]
    pairings: tuple[Pairing, ...]
    waits: tuple[Wait, ...]
    roots: tuple[Root, ...]
    cycles: tuple[Cycle, ...]
    meeting_by_place: dict[tuple[int, int], Meeting] = {}  # noqa: RUF012 - copied by msgspec

    def meeting_of(self, rank: int) -> Meeting | None:
        """Find the collective that a rank stands in."""
        for head in self.heads.of.get(rank, ()):
            meeting = self.meeting_by_place.get((head.group, head.call.seq or 0))
            if meeting is not None and not head.call.p2p:
                return meeting
        return None

    def group(self, head: Head) -> GroupCalls | None:
        """Give the group of a head; one that a stack tells of has none."""
        return self.job.groups[head.group] if head.group >= 0 else None

    def call(self, pairing: Pairing) -> CallRef:
        """Name a send or a receive."""
        return refer(self.group(pairing.head), pairing.call)

    def quotes(self, ranks: Iterable[int]) -> tuple[Quote, ...]:
        """Quote what the records of some ranks say of where they stand."""
        found = []
        for rank in ranks:
            spot = self.heads.spots.get(rank)
            if spot is not None and spot.source is not None:
                found.append(Quote(rank=rank, source=spot.source, text=spot.quote or str(spot)))
        return tuple(found)

    def reaching(self, ranks: set[int], culprits: Sequence[int]) -> tuple[int, ...]:
        """Give ``ranks`` and all who wait for them in the end, without the culprits."""
        found = set(ranks)
        for root in self.roots:
            if root.member in ranks or root.member in culprits:
                found |= root.blocks
        for cycle in self.cycles:
            if cycle.members & ranks:
                found |= cycle.members | cycle.blocks
        return tuple(sorted(found - set(culprits)))


def with_partings(job: JobCalls, says: str, found: Iterable[Apart]) -> str:
    """Put before a sentence what ranks did where they parted from their mates."""
    parted = [
        words.went_another_way(
            odd.rank,
            refer(job.groups[odd.own.group], odd.own.call),
            site_of(odd.own.call),
            refer(job.groups[odd.theirs.group], odd.theirs.call),
            site_of(odd.theirs.call),
        )
        for odd in found
    ]
    return ". ".join((*parted[:MAX_PARTINGS], says))


MAX_PARTINGS = 2


def merged(ranks: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Join several lists of ranks."""
    return tuple(sorted({rank for some in ranks for rank in some}))


def place(meeting: Meeting) -> tuple[int, int]:
    """Say which group and number a meeting is of."""
    return meeting.number, meeting.seq


def site_of_heads(heads: Sequence[Head]) -> Frame | None:
    """Give the first known place in the user's code of some ranks' calls."""
    return next((site for head in heads if (site := site_of(head.call)) is not None), None)


def sources(quotes: Iterable[Quote]) -> tuple[Source, ...]:
    """List the files that are quoted, each once."""
    return tuple(dict.fromkeys(quote.source for quote in quotes))
