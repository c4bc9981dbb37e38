"""The job was stopped from outside while its steps went on.

A scheduler at its limit, an operator or Ctrl-C ends a job that works as well as one that hangs.
The times tell them apart: where the last step lies no further back than the steps before lie from
each other, nothing hung: by hand (Ctrl-C) a healthy job, else one that its time did not do for.
Said only where no rank failed of itself and none gave up waiting.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogTail, Outlook
from whyhang.analyzer.queries import Case, Hit, Signature, cite, duration
from whyhang.analyzer.rank_state.from_logs.ends import waits_in_vain
from whyhang.analyzer.rank_state.from_logs.log_ends import all_tails

_STOPPED = re.compile(
    r"Received (?:2|15|Signals\.SIG(?:INT|TERM)) death signal, shutting down workers"
    r"|SignalException: Process \d+ got signal: (?:2|15)\b|CANCELLED AT [\dT:-]+"
)
"""Of lines that other signatures know: somebody stopped the job."""

_BY_HAND = re.compile(r"SIGINT|(?:Received|signal:) 2\b")
LEAST = 4  # steps
SLACK = 2.0  # times the longest of the last steps, and seconds: launchers notice a signal late


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, if a step came shortly before somebody stopped the job."""
    lines = [
        line for line in case.job.lines if line.time is not None and _STOPPED.search(line.text)
    ]
    stop = min(lines, key=lambda line: line.time or 0.0, default=None)
    tails = [tail for tail in all_tails(case.job) if tail.outlook is Outlook.STEPS]
    if stop is None or stop.time is None or not tails or _failed(case) or case.graph.operations:
        return
    if not all(_at_work(tail, stop.time) for tail in tails):
        return
    last = max(tails, key=lambda tail: tail.steps_below(0)[-1].time or 0.0)
    step = last.steps_below(0)[-1]
    yield Hit(
        evidence=(cite(last.source, step.text, last.who.rank), queries.cite_line(stop)),
        names_culprit=False,
        fields={"before": duration(max(0.0, stop.time - (step.time or 0.0)))},
        category="healthy" if _BY_HAND.search(stop.text) else "",
    )


SIGNATURE = Signature(
    id="stopped-at-work",
    category="slow-not-hung",
    level="wait",
    title="The job was stopped from outside while its steps went on, the last one {before} before",
    when=when,
    means=(
        "The last step is no older than steps of this job are long, no rank failed of itself and "
        "none gave up waiting. Who or what stopped it stands in the scheduler's record."
    ),
    confidence="likely",
    remedies=(
        "Ask for more time, or save checkpoints often enough to go on from where it was stopped.",
    ),
    next_steps=("sacct -j JOB -o JobID,State,ExitCode,Reason,End",),
)


def _failed(case: Case) -> bool:
    """Return whether a rank ended of itself, or gave up waiting for another one."""
    return any(state.end is not None and state.end.own for state in case.states) or any(
        waits_in_vain(line) or (line.raised is not None and line.raised.is_own)
        for line in case.job.lines
    )


def _at_work(tail: LogTail, stop: float) -> bool:
    """Return whether the last step is no older than steps are long."""
    times = [line.time for line in tail.steps_below(0) if line.time is not None][-LEAST * 4 :]
    if len(times) < LEAST:
        return False
    longest = max(b - a for a, b in pairwise(times))
    return -SLACK <= stop - times[-1] <= SLACK * max(longest, 1.0)
