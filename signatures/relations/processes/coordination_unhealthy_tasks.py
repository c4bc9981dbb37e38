"""The coordination service of XLA lists tasks that are gone, or that never came to the start.

JAX and PyTorch/XLA processes meet at a barrier at the start, and send heartbeats from then on.
"""

import re
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

HEADER = r"tasks are unhealthy \(stopped sending heartbeats\):\s*$"
TASK = r"^/job:\w+/replica:\d+/task:(?P<rank>\d+)$"


START = r"Barrier timed out\. (?:Barrier_id|Id): PjRT_Client_Connect\b"
BETWEEN = 2  # lines of a message between its head and the tasks


def unhealthy(case: Case) -> Iterator[Hit]:
    """Yield one hit for the tasks of which no heartbeat comes."""
    return _listed(case, HEADER)


def never_came(case: Case) -> Iterator[Hit]:
    """Yield one hit for the tasks that did not come to the barrier at the start."""
    return _listed(case, START)


def _listed(case: Case, head: str) -> Iterator[Hit]:
    """Yield one hit for the tasks on the lines behind the header."""
    headers = case.job.lines_with((head,))
    listed = {(line.source.file, line.source.line): line for line in case.job.lines_with((TASK,))}
    silent = {}
    for header in headers:
        number = (header.source.line or 0) + 1
        starts = range(number, number + BETWEEN)
        number = next((n for n in starts if (header.source.file, n) in listed), number)
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


UNHEALTHY = Signature(
    id="coordination-unhealthy-tasks",
    story="""\
The coordination service of XLA lists tasks whose heartbeats stopped, and ends the others.

JAX and PyTorch/XLA processes send it heartbeats. Who sends none for as long as is allowed is dead,
cut off, or unable to run for that long.
""",
    category="rank-died",
    level="peer",
    title="The coordination service no longer hears from {who}",
    when=unhealthy,
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

NEVER_CAME = Signature(
    id="coordination-tasks-never-came",
    story="""\
The coordination service of XLA lists the tasks that did not come to the barrier at the start.

It is the one at which processes connect. They were not started, were given another number or
address, or ended before.
""",
    category="init-missing-rank",
    level="setup",
    title="{who} never connected to the coordination service",
    when=never_came,
    patterns=(START,),
    means="The others met at the start and waited for {who} until the time was up.",
    confidence="likely",
    remedies=("Start as many processes as the number that each is given, each with its own.",),
    next_steps=("Read the first lines of {who}; compare the coordinator's address on all hosts",),
    links=("https://docs.jax.dev/en/latest/multi_process.html",),
    matches=(
        "DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out tasks:",
        "Barrier timed out. Id: PjRT_Client_Connect::0. Timed out task names:",
    ),
    misses=("Barrier timed out. Id: save_checkpoint_12::0. Timed out task names:",),
)

SIGNATURES = (UNHEALTHY, NEVER_CAME)
