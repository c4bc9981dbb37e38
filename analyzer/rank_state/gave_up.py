"""Which ranks waited in vain until a limit, and which others are known not to have waited.

A watchdog, a store or gloo says so and the process ends; a rank whose output is lost shows it
by the abort alone. Silence is not absence: who printed nothing may have been ended before its
limit, or its lines were not kept. Only where almost all gave up are the few others elsewhere.
"""

from __future__ import annotations

import signal
from collections.abc import Collection, Mapping

from whyhang.analyzer.rank_state.ends import (
    BROUGHT_DOWN,
    LOST_PEER,
    WAITED,
    End,
    EndSources,
)

FEW = 4
"""Times as many ranks must have given up as did not, for these to be known by that."""


def gave_up(job: EndSources) -> frozenset[int]:
    """Return the ranks that waited until a limit, by their own words or by an abort.

    An abort alone is a watchdog's where some rank says that it waited, or nothing says otherwise:
    no rank failed in another way or lost a peer.
    """
    waited = {line.who.rank for line in job.lines if WAITED.search(line.text)}
    aborted = {row.who.rank for row in job.exits if row.signal == signal.SIGABRT}
    failed = any(row.exitcode or row.signal not in BROUGHT_DOWN | {None} for row in job.exits)
    if waited or not (failed or lost_peer(job)):
        waited |= aborted
    return frozenset(rank for rank in waited if rank is not None)


def lost_peer(job: EndSources) -> frozenset[int]:
    """Return the ranks that noticed the end of another one."""
    ranks = {line.who.rank for line in job.lines if LOST_PEER.search(line.text)}
    return frozenset(rank for rank in ranks if rank is not None)


def few_beside(others: Collection[int], waited: Collection[int]) -> bool:
    """Return whether these are so few beside those who waited that they were elsewhere."""
    return bool(others) and (len(others) == 1 <= len(waited) or len(others) * FEW <= len(waited))


def at_work_until_ended(job: EndSources, ends: Mapping[int, End]) -> frozenset[int]:
    """Return the ranks that a launcher ended while almost all others had given up waiting.

    A watchdog that gives up aborts its process; the launcher then ends the others (SIGTERM). One
    watchdog is enough for that, so where several were ended, they may not have come to their limit.
    """
    waited = gave_up(job)
    ended = {rank for rank, end in ends.items() if end.signal == signal.SIGTERM} - waited
    ended -= lost_peer(job)
    return frozenset(ended) if few_beside(ended, waited) else frozenset()
