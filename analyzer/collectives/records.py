"""What the collective ledger says: verdicts, places, disagreements."""

from __future__ import annotations

import enum

from whyhang.analyzer.collectives.graph import CallRef, Cycle, Root, Wait
from whyhang.analyzer.facts import Frame, Gap, Group, Record, Source


class Verdict(enum.Enum):
    """What became of a call that should have brought ranks together."""

    NEVER_JOINED = "never joined"  # ranks have not enqueued it, and wait for nobody themselves
    STALLED = "joined and not finished"  # peers have finished it, these ranks have not
    STUCK_TOGETHER = "joined by all, finished by none"  # the cause lies below the program
    MISMATCH = "mismatch"  # other operation, size or dtype under the same number
    PARTED = "in calls of other numbers"  # some have finished what others stand in
    SKIPPED = "skipped"  # the sequences agree once a call is taken to be left out
    EXTRA = "extra"  # the sequences agree once a call is taken to be one too many
    ORDER = "other order"  # the same calls, in another order
    UNEVEN = "left the loop"  # the rank has gone on to what comes after the loop
    P2P_UNPAIRED = "send and receive do not pair"
    COALESCED_OPEN = "coalesced block never closed"
    CROSS_GROUP = "groups entered in opposite order"
    WAITS_FOR_ABSENT = "waits for ranks that left no record"
    ALL_COMPLETED = "every recorded call is completed"
    IN_MOTION = "recorded while the ranks went on"
    HALF_DONE = "finished by some, and not by others"  # which does not tell whose fault it is
    LATE_OR_APART = "late, or in a call that is not recorded"


class Quote(Record):
    """What the record of one rank says, in one line, and where it stands."""

    rank: int
    source: Source
    text: str


class Side(Record):
    """What some ranks did under one number: one side of a mismatch.

    ``says`` is what sets the side apart ("all_reduce", "[4, 10] Float"); ``site`` is the
    place in the user's code of the first of its ranks.
    """

    says: str
    ranks: tuple[int, ...]
    call: CallRef
    site: Frame | None = None
    source: Source | None = None


class Finding(Record):
    """One verdict.

    ``culprits`` are the ranks to look at first; empty where nobody can be named (a tie, a
    cycle, below the program). ``call`` is where it shows, ``waiting`` the ranks inside it,
    ``affected`` all who wait in the end. ``sides`` are what the ranks called, the majority
    first; ``field`` is what differs ("op", "size", "dtype"). ``missed`` is the call that was
    skipped, was one too many, or that a culprit did last before it fell behind, ``shift_says`` the
    clause of ``says`` that tells which of these; ``site`` is the
    culprit's own code line for that. ``quotes`` are the records it rests on. ``parts`` splits a
    verdict that several ranks earned in several calls. ``by_history``: the ranks were even, and
    the culprit is the one that left its own habit. ``unrecorded``: the culprit may stand in a
    call that its recorder leaves out. ``inferred``: the membership of the group was
    concluded, not read. ``cause`` is False where another finding explains this one.
    """

    verdict: Verdict
    says: str  # one sentence
    call: CallRef | None = None
    culprits: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    affected: tuple[int, ...] = ()
    absent: tuple[int, ...] = ()
    field: str | None = None
    sides: tuple[Side, ...] = ()
    tie: bool = False
    by_history: bool = False
    unrecorded: bool = False
    missed: CallRef | None = None
    shift_says: str = ""
    site: Frame | None = None
    waiting_site: Frame | None = None
    cycle: Cycle | None = None
    parts: tuple[Finding, ...] = ()
    quotes: tuple[Quote, ...] = ()
    sources: tuple[Source, ...] = ()
    inferred: bool = False
    cause: bool = True


class Spot(Record):
    """Where one rank stands: inside ``call``, or between calls with ``call`` done last.

    ``quote`` is the record of that call in one line.
    """

    rank: int
    call: CallRef | None
    inside: bool
    site: Frame | None = None
    source: Source | None = None
    quote: str = ""

    def __str__(self) -> str:
        if self.call is None:
            return "no call recorded"
        return f"in {self.call}" if self.inside else f"after {self.call}"


class GroupLine(Record):
    """One group of the ledger: how far each member came. Ranks without a record are ``absent``."""

    group: Group
    name: str  # the name to show, unique among the groups
    kind: str  # which counters these are: "c10d", "nccl", ...
    enqueued: dict[int, int | None]
    completed: dict[int, int | None]
    absent: tuple[int, ...] = ()


class Disagreement(Record):
    """Two sources say different things of one rank; the first one was believed."""

    rank: int
    group: str
    what: str
    believed: str
    other: str
    sources: tuple[Source, ...] = ()

    def __str__(self) -> str:
        where = f" of {self.group}" if self.group else ""
        return f"rank {self.rank}{where}: {self.what}: {self.believed}, but {self.other}"


class LedgerReport(Record):
    """All that the ledger says. ``findings`` holds causes first, most affected ranks first.

    ``waits`` are the edges for the wait graph, ``roots`` and ``cycles`` its reading (together
    with the waits that were handed in). ``moved`` are ranks that went on between two looks.
    """

    findings: tuple[Finding, ...] = ()
    waits: tuple[Wait, ...] = ()
    roots: tuple[Root, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    spots: dict[int, Spot] = {}  # noqa: RUF012 - msgspec copies it for each record
    groups: tuple[GroupLine, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    gaps: tuple[Gap, ...] = ()
    moved: frozenset[int] = frozenset()

    def activity_of(self, rank: int | None) -> str | None:
        """Say in a few words where a rank stands; None if nothing is known of it."""
        spot = self.spots.get(rank) if rank is not None else None
        return None if spot is None else str(spot)

    def of(self, *verdicts: Verdict) -> tuple[Finding, ...]:
        """Give the findings of these kinds that are causes."""
        return tuple(j for j in self.findings if j.verdict in verdicts and j.cause)
