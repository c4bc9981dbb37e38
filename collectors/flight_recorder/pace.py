"""Whether a dump was written while its rank was still going on.

NCCL's watchdog writes a dump when a call has timed out; over gloo nothing does. Anyone may ask for
one at any time. The file's own time against the times of its calls tells: a rank
whose last call is no older than the pauses it makes anyway shows no sign of a hang.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from whyhang.analyzer.facts import CallState
from whyhang.collectors.flight_recorder.entries import GLOO, Row

RECENT = 64
"""Calls over which pauses are looked at."""

FEWEST = 8
"""With fewer calls than these nothing is known of a rank's pace."""

LONGER = 2
"""How many times its usual pause a rank may be silent, as no two steps take the same time."""

LONGEST = 30.0
"""Seconds beyond which silence over NCCL is none of a job that moves, whatever its pauses."""

AT_ONCE = 0.5
"""Seconds within which nobody asks for a dump because of a hang, nor a watchdog writes one."""

DEFAULT_LIMIT = 600.0
NEARLY = 0.9
"""The part of its time limit, in seconds, that no call of a moving job has waited for."""

BLURRED = 0.02
"""Seconds of calls that are too few to be those of a job: the times are made up or coarse."""


def moves(rows: Sequence[Row], written_at: float | None) -> bool:
    """Return whether the silence before a dump is no longer than a pause the rank makes anyway.

    The longest pause does not count: programs start slowly once. A file that was copied is
    younger than the dump, which only makes the silence longer.
    """
    over_gloo = all(row.name.library == GLOO for row in rows)
    recent = _in_a_row(rows[-RECENT:] if over_gloo else rows)
    times = sorted(row.created_at for row in recent if row.created_at is not None)
    if written_at is None or not times:
        return False
    silence = written_at - times[-1]
    if not over_gloo and _late(rows, written_at):
        return False
    if not over_gloo and 0 <= silence < AT_ONCE:
        return True  # calls are enqueued in bursts, and only the last burst may have been read
    if len(times) < FEWEST or times[-1] - times[0] < BLURRED:
        return False
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    usual = LONGER * pauses[-2]
    return 0 <= silence < (usual if over_gloo else min(usual, LONGEST))


def _late(rows: Sequence[Row], written_at: float) -> bool:
    """Return whether a call was open for so long that the watchdog may have fired."""
    return any(
        written_at - row.created_at > NEARLY * (row.limit or DEFAULT_LIMIT)
        for row in rows
        if row.state is not CallState.COMPLETED and row.created_at is not None
    )


def _in_a_row(rows: Sequence[Row]) -> Sequence[Row]:
    """Return the last entries that follow each other: others were left out, with their times."""
    start = len(rows) - 1
    while start > 0 and (rows[start].order or 0) == (rows[start - 1].order or 0) + 1:
        start -= 1
    return rows[max(0, start) :]
