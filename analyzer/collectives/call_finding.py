"""A finding about recorded calls: what became of them, and through whom."""

from __future__ import annotations

import enum

from whyhang.analyzer.collectives.mismatch import Side
from whyhang.analyzer.collectives.pending import IssuedCall
from whyhang.analyzer.collectives.waits import CallRef
from whyhang.analyzer.facts import Frame, Record, Source


class Verdict(enum.Enum):
    """What became of a call that should have brought ranks together."""

    NEVER_JOINED = "never joined"  # ranks have not enqueued it, and wait for nobody themselves
    STALLED = "joined and not finished"  # peers have finished it, these ranks have not
    ALL_ARRIVED = "joined by all, finished by none"  # the cause lies below the program
    MISMATCH = "mismatch"  # other operation, size or dtype under the same number
    DIVERGED = "in calls of other numbers"  # some have finished what others are in
    SKIPPED = "skipped"  # the sequences agree once a call is taken to be left out
    EXTRA = "extra"  # the sequences agree once a call is taken to be one too many
    REORDERED = "other order"  # the same calls, in another order
    LEFT_LOOP = "left the loop"  # the rank has gone on to what comes after the loop
    P2P_UNPAIRED = "send and receive do not pair"
    COALESCED_OPEN = "coalesced block never closed"
    CROSS_GROUP = "groups entered in opposite order"
    WAITS_FOR_ABSENT = "waits for ranks that left no record"
    ALL_COMPLETED = "every recorded call is completed"
    IN_MOTION = "recorded while the ranks went on"
    PARTLY_COMPLETED = "finished by some, and not by others"  # it tells no culprit
    CAME_LATE = "came when the others had given up"
    LATE_OR_UNRECORDED = "late, or in a call that is not recorded"


class CallFinding(Record):
    """One verdict.

    ``culprits`` are the ranks to look at first; empty where nobody can be named (a tie, a
    cycle, below the program). ``call`` is where it shows, ``waiting`` the ranks inside it,
    ``affected`` all who wait in the end. ``sides`` are what the ranks called, the majority
    first; ``field`` is what differs ("op", "size", "dtype"). ``missed`` is the call that was
    skipped, was one too many, or that a culprit did last before it fell behind, ``shift_says`` the
    clause of ``says`` that tells which of these; ``site`` is the
    culprit's own code line for that. ``quotes`` are the records it rests on. ``parts`` splits a
    verdict that several ranks earned in several calls. ``by_history``: the ranks were even, and
    the culprit is the one that left its own habit, or that a person names. ``unrecorded``: the
    culprit may be in a call that its recorder leaves out. ``inferred``: the membership of the group
    was inferred, not read. ``cause`` is False where another finding explains this one.
    """

    verdict: Verdict
    says: str = ""  # one sentence, where the sides do not say it
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
    parts: tuple[CallFinding, ...] = ()
    quotes: tuple[IssuedCall, ...] = ()
    inferred: bool = False
    cause: bool = True

    @property
    def sources(self) -> tuple[Source, ...]:
        """The places that are quoted, each once."""
        return tuple(dict.fromkeys(call.source for call in self.quotes if call.source is not None))
