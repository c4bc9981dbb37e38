"""The coordination service of XLA lists tasks whose heartbeats stopped, and ends the others.

JAX and PyTorch/XLA processes send it heartbeats. Who sends none for as long as is allowed is dead,
cut off, or unable to run for that long.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

HEADER = r"tasks are unhealthy \(stopped sending heartbeats\):\s*$"
TASK = r"^/job:\w+/replica:\d+/task:(?P<rank>\d+)$"


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the tasks on the lines behind the header."""
    headers = case.job.lines_with((HEADER,))
    listed = {(line.source.file, line.source.line): line for line in case.job.lines_with((TASK,))}
    silent = {}
    for header in headers:
        number = (header.source.line or 0) + 1
        while line := listed.get((header.source.file, number)):
            if rank := re.search(TASK, line.text):
                silent[int(rank["rank"])] = line
            number += 1
    if silent:
        members, unseen = queries.members_of(case, sorted(silent))
        yield Hit(
            members=members,
            ranks=unseen,
            evidence=tuple(map(queries.cite_line, [headers[0], *silent.values()][:6])),
            fields={"who": queries.ranks_in_words(silent)},
            at=headers[0].time,
        )


SIGNATURE = Signature(
    id="coordination-unhealthy-tasks",
    category="rank-died",
    level="peer",
    title="The coordination service no longer hears from {who}",
    when=when,
    patterns=(HEADER,),
    means=(
        "{who} sent no heartbeat for as long as is allowed: dead, cut off, or unable to run for "
        "that long. The other tasks are ended for it."
    ),
    confidence="likely",
    remedies=("Find what ended {who}, or kept it from running; start the job again from there.",),
    next_steps=("Read the last lines of {who}, and the kernel's log of its host",),
    links=("https://docs.jax.dev/en/latest/fault_tolerance.html",),
    matches=(
        "The following tasks are unhealthy (stopped sending heartbeats):",
        "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats): ",
    ),
    misses=("All tasks are healthy",),
)
