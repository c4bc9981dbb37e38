"""Whether a dump was written while its rank was still going on.

NCCL's watchdog writes a dump when a call has timed out; over gloo nothing does, and a dump is
taken whenever somebody asks. The file's own time against the times of its calls tells: a rank
whose last call is no older than the pauses it makes anyway shows no sign of a hang.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from whyhang.collectors.flight_recorder.entries import Row

GLOO = "gloo"

RECENT = 64
"""Calls over which pauses are looked at."""

FEWEST = 8
"""With fewer calls than these nothing is known of a rank's pace."""

LONGER = 2
"""How many times its usual pause a rank may be silent, as no two steps take the same time."""

BLURRED = 0.02
"""Seconds of calls that are too few to be those of a job: the times are made up or coarse."""


def moves(known: Sequence[Row], written_at: float | None) -> bool:
    """Tell whether the silence before a dump is no longer than a pause the rank makes anyway.

    The longest pause does not count: programs start slowly once. A file that was copied is
    younger than the dump, which only makes the silence longer.
    """
    times = sorted(row.created_at for row in known[-RECENT:] if row.created_at is not None)
    if written_at is None or len(times) < FEWEST or times[-1] - times[0] < BLURRED:
        return False
    pauses = sorted(later - earlier for earlier, later in itertools.pairwise(times))
    return 0 <= written_at - times[-1] < LONGER * pauses[-2]
