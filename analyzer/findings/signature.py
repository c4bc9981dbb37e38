"""What a signature is: knowledge about one kind of hang.

One over log lines, or over a query with arguments that never change, is data and stands in TOML
(``signature_toml``). One over a relation between ranks of its own is a module: a docstring (the
story: what happens, why, how to tell), a function ``when(case)`` that yields hits, and a
``SIGNATURE`` with the words. ``whyhang.analyzer.queries`` has what a ``when`` may ask.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Literal, get_args

from whyhang.analyzer.facts import Record, Source
from whyhang.analyzer.report import Collective, Evidence, Location

if TYPE_CHECKING:
    from whyhang.analyzer.case import Case


class Kind(enum.Enum):
    """What a finding of this signature is to the hang. Knowing what is not the cause is half."""

    CAUSE = "cause"
    CONSEQUENCE = "consequence"
    NOISE = "noise"


Level = Literal["machine", "kill", "setup", "program", "peer", "wait", "summary", "fallback"]
"""How deep a finding goes, deepest first; the deeper explains the shallower (see ``levels``).

- machine: something of the machine is broken: a GPU, its memory or links, a network card, a disk.
- kill: a process was killed or stopped from outside.
- setup: how the job was configured and started: addresses, ports, versions, limits, settings.
- program: what the program did: an exception, a crash, a lock, a block, calls that do not match.
- peer: trouble with another rank or on the way to it: an echo of something else.
- wait: ranks wait in vain: time-outs, a lagging rank as a mere relation.
- summary: what a launcher sums up, or where everybody stands.
- fallback: what is said only if nothing else is found.
"""

LEVELS: tuple[Level, ...] = get_args(Level)

Confidence = Literal["certain", "strong", "likely", "possible", "hint"]
"""What a signature is worth where its evidence is clear."""

WORTH: dict[Confidence, float] = {
    "certain": 0.97,
    "strong": 0.9,
    "likely": 0.8,
    "possible": 0.65,
    "hint": 0.3,
}
"""The number that each word stands for in a report (docs/confidence.md says what was measured)."""


CLEAR = 1.0
INDIRECT = 0.85  # concluded from something else that was seen
INCOMPLETE = 0.75
"""Evidence is missing that would decide: ranks, a second snapshot, who is the odd one."""
GUESSED = 0.6  # so much is missing that another reading is nearly as good
CONTRADICTED = 0.5  # something else speaks against it


class Hit(Record):
    """One place where a signature applies, with its evidence.

    ``members`` are the ones to look at first (indices into ``Case.members``), ``ranks`` the same by
    their numbers, of which there may be no evidence. ``affected`` wait because of them.
    ``strength`` scales the signature's confidence: ``CLEAR``, or a
    product of the factors above. ``gpus`` are the GPUs it is about or compares (numbers in
    ``Job.gpus``). ``fields`` fill the title. ``at`` orders hits in time where that is known.
    """

    members: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    affected: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    strength: float = 1.0
    collective: Collective | None = None
    location: Location | None = None
    fields: dict[str, str] = {}
    at: float | None = None
    gpus: tuple[int, ...] = ()
    names_culprit: bool = True  # False: the members are only where it shows
    category: str = ""  # where it is not the signature's

    @property
    def places(self) -> set[Source]:
        """The files and lines that it rests on."""
        return {piece.place for piece in self.evidence}


class Signature(Record):
    """Knowledge about one kind of hang.

    ``title`` and ``means`` are templates over the hit's fields ("{who} ..."); ``means`` is the
    explanation for the reader of a report. ``confidence`` is what the evidence is worth when the
    hit is clear. ``when`` yields every place where it applies. ``patterns`` are those of the log
    lines that speak for it, ``vetoes`` of those that take it back: the reader of logs looks for all
    of them. ``matches`` and ``misses`` are example lines for ``patterns``: a test runs them.
    ``everywhere`` is the category where no rank is to blame, because every rank had the same or
    there is only one process. ``explains`` names signatures whose findings on the same ranks become
    effects of this one, where their levels do not say so.
    """

    id: str
    category: str
    level: Level
    title: str
    when: Callable[[Case], Iterable[Hit]]
    means: str
    kind: Kind = Kind.CAUSE
    confidence: Confidence | float = "strong"
    everywhere: str = ""
    remedies: tuple[str, ...] = ()
    next_steps: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    matches: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    vetoes: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    retries: tuple[str, ...] = ()  # those of ``patterns`` whose line says that it is tried again
    restarts: bool = False  # its lines stand where one attempt of the job ends and the next begins
    story: str = ""  # what happens, why, how to tell: for ``whyhang explain``
    runbook: str | None = None
    owner: str | None = None  # whom to call, as configured
    origin: str = ""  # the card it was read from; empty for those that ship with whyhang

    @property
    def searched(self) -> tuple[str, ...]:
        """Return all patterns that the reader of logs must look for."""
        return (*self.patterns, *self.vetoes)

    @property
    def worth(self) -> float:
        """Return the number that its confidence stands for."""
        return WORTH[self.confidence] if isinstance(self.confidence, str) else self.confidence
