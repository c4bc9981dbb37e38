"""A launcher ended all tasks but one, because a task had failed: it is the one that is left out.

srun cancels a step when one of its tasks fails, and lists the tasks that it ended. Whoever is not
in that list had ended before, by itself; its own line may be missing from what was kept.
"""

import signal
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

PATTERNS = (r"CANCELLED AT .{0,40}DUE TO TASK FAILURE",)
FEW = 8  # ended tasks for each that is left out


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are left out among those that were ended."""
    lines = case.job.lines_with(PATTERNS)
    rows = [row for row in case.job.exits if row.who.rank is not None]
    ended = {row.who.rank for row in rows if row.signal == signal.SIGTERM}
    if not lines or not ended or ended != {row.who.rank for row in rows}:
        return
    size = max(case.job.world_size or 0, max(rank for rank in ended if rank is not None) + 1)
    left_out = sorted(set(range(size)) - ended)
    if not left_out or len(left_out) * FEW > len(ended):
        return
    row = rows[0]
    yield Hit(
        ranks=tuple(left_out),
        evidence=(queries.cite_line(lines[0]), queries.cite(row.source, row.quote)),
        fields={"count": str(len(ended))},
        at=lines[0].time,
    )


SIGNATURE = Signature(
    id="launcher-ended-others",
    category="rank-died",
    level="kill",
    title="A task failed, and the launcher ended all {count} others: {who} is left out",
    when=when,
    patterns=PATTERNS,
    means=(
        "The step was cancelled because a task failed, and the tasks that were ended are listed. "
        "{who} is not among them, so it had ended before: it is the one that failed."
    ),
    confidence="likely",
    remedies=("Read the output of {who} up to its end.",),
    next_steps=("sacct -j JOB --format=JobID,State,ExitCode,NodeList  # of the job",),
    matches=(
        (
            "[2031-04-29T23:36:37.809] error: *** STEP 52.0 ON nid002 CANCELLED AT "
            "2031-04-29T23:36:37 DUE TO TASK FAILURE ***"
        ),
        "slurmstepd: error: *** STEP 7.0 ON n0 CANCELLED AT 2031-04-29T23 DUE TO TASK FAILURE ***",
    ),
    misses=("slurmstepd: error: *** STEP 52.0 ON nid002 CANCELLED AT 2031-04-29T23:36:37 ***",),
)
